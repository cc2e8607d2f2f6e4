"""Each right answer, the reference and every alternative, passes on fresh inputs, again and again: no verdict hangs on a lucky seed.
``oplab lint-course --repeat 200`` does it longer.
"""

from __future__ import annotations

import numpy as np
import pytest

from oplab.authoring import lint
from oplab.course.manifest import load, preloads
from oplab.grading.client import Server
from tests.support import ROOT
from tests.support.ungraded import skip_if_ungraded

pytestmark = pytest.mark.nightly
TIMES = 10
COURSE = load(ROOT)
RIGHT = [trial for trial in lint.trials(COURSE) if trial.kind in lint.KINDS["right"]]


@pytest.fixture(scope="module")
def server():
    with Server(preloads(COURSE.exercises), many=True) as running:
        yield running


@pytest.mark.parametrize("trial", RIGHT, ids=lambda trial: trial.id.replace(": ", "-").replace(" ", "_"))
def test_a_right_answer_passes_on_any_inputs(trial, server, tmp_path, seed):
    for its in map(int, np.random.default_rng(seed).integers(2**31, size=TIMES)):
        outcome = lint.attempt(COURSE, trial, server, its, tmp_path)
        skip_if_ungraded(outcome)
        problem = trial.problem(outcome)
        assert not problem, f"{problem}\n{trial.command(its)}"
