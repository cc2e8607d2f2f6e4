"""What the grader promises of every exercise, one test for each rule and each answer: the stub is `todo`, each wrong answer is rejected
for its own reason. The right answers are in test_repeats.py. ``oplab.authoring.lint`` has the rules and finds the answers.
"""

from __future__ import annotations

import re

import pytest

from oplab.authoring import lint, mutants
from oplab.course.manifest import load, preloads
from oplab.grading.client import Server
from tests.support import ROOT
from tests.support.ungraded import skip_if_ungraded

COURSE = load(ROOT)
TRIALS = lint.trials(COURSE)
NOT_RIGHT = [trial for trial in TRIALS if trial.kind not in lint.KINDS["right"]]
SEED = 20261121  # a test says the same on every run; `oplab lint-course` takes fresh inputs each time


@pytest.fixture(scope="session")
def server():
    with Server(preloads(COURSE.exercises), many=True) as running:
        yield running


@pytest.mark.parametrize("rule", lint.RULES, ids=lambda rule: rule.__name__)
def test_rule(rule):
    assert [str(finding) for finding in rule(COURSE)] == []


@pytest.mark.parametrize("trial", NOT_RIGHT, ids=lambda trial: trial.id.replace(": ", "-").replace(" ", "_"))
def test_answer(trial, server):
    outcome = lint.attempt(COURSE, trial, server, SEED)
    skip_if_ungraded(outcome)
    problem = trial.problem(outcome)
    assert not problem, problem


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.id)
def test_each_exercise_is_tried(exercise):
    """A trial that is not made proves nothing: stub, edited stub, solution and three mutants are the least."""
    kinds = [trial.kind for trial in TRIALS if trial.exercise == exercise]
    assert kinds[:3] == ["stub", "edited stub", "solution"]
    assert kinds.count("mutant") >= lint.MUTANTS


@pytest.mark.parametrize("kind", mutants.FOLDERS)
def test_no_answer_is_left_out(kind):
    """As many trials as tables: one that is not read would be a test that silently does not run."""
    tables = [
        name
        for path in (COURSE.root / "tests" / mutants.FOLDERS[kind]).rglob("*.toml")
        for name in re.findall(r"^\[([a-z0-9_]+)\]$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if name != mutants.WITHOUT
    ]
    assert tables and len(tables) == sum(trial.kind == kind for trial in TRIALS)
