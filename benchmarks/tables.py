"""Tables for the terminal and for docs/benchmarks.md, which holds each of them between two marks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"
MARKS = "<!-- {name}: written by a command, not by hand -->", "<!-- end of {name} -->"


def text(rows: Sequence[Sequence[str]], head: Sequence[str]) -> str:
    """The rows in columns."""
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def markdown(rows: Sequence[Sequence[str]], head: Sequence[str]) -> str:
    """The rows as a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def between(page: str, name: str, made: str) -> str:
    """``page`` with ``made`` between the marks of that name.

    Raises:
        ValueError: the marks are not there.
    """
    first, last = (mark.format(name=name) for mark in MARKS)
    pattern = re.compile(f"{re.escape(first)}.*?{re.escape(last)}", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"there is no {first}")
    return pattern.sub(lambda _: f"{first}\n{made}\n{last}", page)


def write(name: str, made: str) -> None:
    """Puts a table into docs/benchmarks.md."""
    PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), name, made), encoding="utf-8")
