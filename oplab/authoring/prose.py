"""The text of a lesson's source, told from its code, and how long both take to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def lesson(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line number, line, whether it is prose) of each line of a lesson's source that is not empty; the rest is code."""
    is_prose = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("# %%"):
            is_prose = "[markdown]" in line
        elif line.strip(" #"):
            yield number, line, is_prose


def reading_minutes(path: Path) -> int:
    """How many whole minutes a lesson takes without its exercises: 150 words of prose a minute, and two seconds for each line of code."""
    every = list(lesson(path))
    seconds = sum(len(line.split()) - 1 for _, line, is_prose in every if is_prose) / 150 * 60
    return int((seconds + sum(2 for _, _, is_prose in every if not is_prose)) / 60)
