"""docs/coverage.md is true: what a note teaches stands in a chapter that the table names."""

from __future__ import annotations

import re

from tests.support import ROOT


def test_the_words_of_each_row_are_in_one_of_its_lessons():
    rows = re.findall(r"^\| (N\d) \| (.+) \| (.+) \| `(.+)` \|$", (ROOT / "docs" / "coverage.md").read_text(), re.M)
    assert {note for note, *_ in rows} == {"N0", "N1", "N2", "N3", "N4"}
    sources = {path.name[:2]: path.read_text() for path in (ROOT / "notebooks" / "src").glob("*.py")}
    missing = [row for row in rows if not any(row[3] in sources[chapter] for chapter in row[2].split(", "))]
    assert not missing
