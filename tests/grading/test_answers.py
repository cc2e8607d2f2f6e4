"""What the grader promises of every exercise, one test for each rule and each answer: the stub is `todo`, each wrong answer is rejected
for its own reason, each right answer passes. ``oplab.authoring.lint`` has the rules and finds the answers.

`make test` grades a sixteenth of the wrong answers and the alternatives, ``OPLAB_PART=3/16``; each lesson grades its own references in
that run. Without the variable, all are graded.
"""

from __future__ import annotations

import os
import re
import zlib

import pytest

from oplab.authoring import lint, mutants
from oplab.course.manifest import load, preloads
from oplab.grading.client import Server
from tests.support import ROOT
from tests.support.ungraded import skip_if_ungraded

COURSE = load(ROOT)
TRIALS = lint.trials(COURSE)
PART, PARTS = map(int, os.environ.get("OPLAB_PART", "0/1").split("/"))


def _chosen(trial: lint.Trial) -> bool:
    if PARTS == 1 or trial.kind == "stub":
        return True
    return trial.kind != "solution" and zlib.crc32(trial.id.encode()) % PARTS == PART


CHOSEN = [trial for trial in TRIALS if _chosen(trial)]


@pytest.fixture(scope="session")
def server():
    with Server(preloads(COURSE.exercises), many=True) as running:
        yield running


@pytest.mark.parametrize("rule", lint.RULES, ids=lambda rule: rule.__name__)
def test_rule(rule):
    assert [str(finding) for finding in rule(COURSE)] == []


@pytest.mark.parametrize("trial", CHOSEN, ids=lambda trial: trial.id.replace(": ", "-").replace(" ", "_"))
def test_answer(trial, server, seed):
    outcome = lint.attempt(COURSE, trial, server, seed)
    skip_if_ungraded(outcome)
    problem = trial.problem(outcome)
    assert not problem, f"{problem}\n{trial.command(seed)}"


@pytest.mark.parametrize("kind", mutants.FOLDERS)
def test_no_answer_is_left_out(kind):
    """As many trials as tables: one that is not read would be a test that silently does not run."""
    tables = [
        name
        for path in (COURSE.root / "tests" / mutants.FOLDERS[kind]).rglob("*.toml")
        for name in re.findall(r"^\[([a-z0-9_]+)\]$", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert tables and len(tables) == sum(trial.kind == kind for trial in TRIALS)
