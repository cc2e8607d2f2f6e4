"""docs/coverage.md is true: what a note teaches stands in the chapter that the table names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oplab.course import load

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [part.strip() for part in line.strip("|\n").split("|")]
    for line in (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| N\d", line)
]
WRITTEN = {chapter.stem[:2]: chapter.stem for chapter in load(ROOT).chapters}


def test_every_note_is_there():
    assert {row[0] for row in ROWS} == {"N0", "N1", "N2", "N3", "N4"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1][:40]}")
def test_the_chapter_teaches_it(row):
    _, _, chapters, words = row
    written = [WRITTEN[number] for number in chapters.split(", ") if number in WRITTEN]
    if words == "planned":
        assert not written, f"chapter {written} is written: name words that prove the row"
        return
    sources = [(ROOT / "notebooks" / "src" / f"{stem}.py").read_text(encoding="utf-8") for stem in written]
    assert any(words.strip("`") in source for source in sources)
