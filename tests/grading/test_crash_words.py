"""What a crash of a learner's kernel is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from oplab.course.manifest import load
from oplab.grading import outcomes
from oplab.grading.protocol import Answer
from oplab.paths import root


@pytest.mark.parametrize(
    ("signal", "says"),
    [("SIGFPE", "with SIGFPE. An integer was divided by zero: a size may be 0."), ("SIGSEGV", "with SIGSEGV.")],
)
def test_a_division_by_zero_is_named(signal: str, says: str) -> None:
    exercise = load(root()).exercise("c14.fuse_my_add")
    answer = Answer(signal=signal, phase="running", cpu_seconds=0.1)
    outcome = outcomes.from_collect(exercise, answer, Path("c14_fuse_my_add.cpp"), False)
    assert outcome.status == "crashed"
    assert outcome.message == f"The process crashed {says} `oplab check c14.fuse_my_add --sanitize` finds the line."
