"""The source of a lesson: its text, told from its code, its sections, and how long they take to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

DEEPER = "Deeper: "  # how the heading of a section begins that the core path leaves out
FOLDED = '"jp-MarkdownHeadingCollapsed": true'  # JupyterLab opens the notebook with such a section folded


def lesson(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line number, line, whether it is prose) of each line of a lesson's source that is not empty; the rest is code."""
    is_prose = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("# %%"):
            is_prose = "[markdown]" in line
        elif line.strip(" #"):
            yield number, line, is_prose


@dataclass
class Section:
    """A part of a lesson, from one heading of the second level to the next; the first has none.

    Attributes:
        line: where its heading is, counted from 1.
        title: its heading, without what marks it as deeper.
        deeper: whether the core path leaves it out.
        folded: whether JupyterLab shows only its heading until it is opened.
        words: of its prose.
        code: its lines of code that are not empty.
        checks: the exercises that its cells check, as they are written there.
    """

    line: int
    title: str
    deeper: bool = False
    folded: bool = False
    words: int = 0
    code: int = 0
    checks: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long readers took for it, with running its cells: 75 words of prose a minute, and four seconds for each line of code."""
        return self.words / 75 * 60 + 4 * self.code


def sections(path: Path) -> list[Section]:
    """The sections of a lesson's source in their order."""
    found = [Section(1, "")]
    folded = {
        number + 1
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if line.startswith("# %%") and FOLDED in line
    }
    for number, line, is_prose in lesson(path):
        if is_prose and line.startswith("# ## "):
            title = line.removeprefix("# ## ")
            deeper = title.startswith(DEEPER)
            found.append(Section(number, title.removeprefix(DEEPER), deeper, number in folded))
        if is_prose:
            found[-1].words += len(line.split()) - 1
            continue
        found[-1].code += 1
        if check := re.match(r"""lab\.check\(["'](?:c\w\w\.)?(\w+)["']""", line):
            found[-1].checks.append(check[1])
    return found


def reading_minutes(path: Path) -> tuple[float, float]:
    """How many minutes a lesson takes without its exercises: its core, and what is deeper."""
    every = sections(path)
    core = sum(section.seconds for section in every if not section.deeper)
    return core / 60, sum(section.seconds for section in every if section.deeper) / 60
