"""Fill in the section column of docs/coverage.md: the heading of the lesson under which a row's words stand.

    python tools/note_coverage.py          # after a row was added, or a heading changed

A row is ``| note | what it teaches | chapter | section | `words` |``. Words that stand in no chapter of their row are an error.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"
SOURCES = ROOT / "notebooks" / "src"


@dataclass(frozen=True)
class CoverageEntry:
    """One row of the table; ``chapters`` are numbers such as ``("05", "07")``."""

    note: str
    teaches: str
    chapters: tuple[str, ...]
    section: str
    words: str

    @property
    def planned(self) -> bool:
        return self.words == "planned"

    def line(self) -> str:
        words = self.words if self.planned else f"`{self.words}`"
        return f"| {self.note} | {self.teaches} | {', '.join(self.chapters)} | {self.section} | {words} |"


def rows(text: str) -> list[CoverageEntry]:
    found = []
    for line in text.splitlines():
        if re.match(r"\| N\d ", line):
            note, teaches, chapters, section, words = (part.strip() for part in line.strip("|").split("|"))
            found.append(CoverageEntry(note, teaches, tuple(chapters.split(", ")), section, words.strip("`")))
    return found


def section(row: CoverageEntry) -> str | None:
    """``05, 3. Constants``: the first chapter of the row that holds its words, and the heading above them; None if none does."""
    for chapter in row.chapters:
        for source in sorted(SOURCES.glob(f"{chapter}_*.py")):
            before, found, after = source.read_text(encoding="utf-8").partition(row.words)
            if found:
                until = before + found + after.partition("\n")[0]  # the words may be a heading themselves
                headings = re.findall(r"^# #{1,3} (.+)$", until, re.M)
                return f"{chapter}, {headings[-1]}" if headings else None
    return None


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    wrong = 0
    for row in rows(text):
        place = "" if row.planned else section(row)
        if place is None:
            print(
                f"{PAGE.name}: `{row.words}` is in no chapter of {', '.join(row.chapters)} ({row.teaches})",
                file=sys.stderr,
            )
            wrong += 1
            continue
        new = CoverageEntry(row.note, row.teaches, row.chapters, place.replace("|", "/"), row.words).line()
        text = text.replace(row.line(), new) if row.line() in text else text
    PAGE.write_text(text, encoding="utf-8")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
