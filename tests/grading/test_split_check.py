"""The text of a check for the learner's process."""

from __future__ import annotations

import pytest

from oplab.grading import integrity
from oplab.grading.split_check import without_judges
from tests.support import ROOT


@pytest.mark.parametrize("exercise", ["c07.knn_query", "c13.knn_query"])
def test_references_that_several_chapters_share_are_for_the_judge(exercise):
    (path,) = (ROOT / "oplab" / "checks").glob(f"{exercise[:3]}_*.py")
    text = path.read_text(encoding="utf-8")
    assert "oplab.checks.references" in text
    assert "oplab.checks.references" not in without_judges(text, exercise[4:])
    assert not any("references" in path for path in integrity.digests())
    assert {name.rpartition(".")[2] for name in integrity.references()} == {"points", "resizing", "sums"}
