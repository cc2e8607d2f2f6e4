"""docs/coverage.md is true: what a note teaches stands in the chapter and the section that the table names."""

from __future__ import annotations

import note_coverage as coverage
import pytest

from oplab.course.manifest import load
from tests.support import ROOT

ROWS = coverage.rows(coverage.PAGE.read_text(encoding="utf-8"))
WRITTEN = {chapter.stem[:2] for chapter in load(ROOT).chapters}


def test_every_note_is_there():
    assert {row.note for row in ROWS} == {"N0", "N1", "N2", "N3", "N4"}


def test_no_row_stands_twice():
    assert len({(row.note, row.teaches) for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.note} {row.teaches[:40]}")
def test_the_section_teaches_it(row):
    if row.planned:
        written = WRITTEN.intersection(row.chapters)
        assert not written, f"chapter {written} is written: name words that prove the row"
        return
    assert row.section == coverage.section(row), "run `python tools/note_coverage.py`"
