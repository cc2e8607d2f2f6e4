"""Both halves of a check make the same inputs, and where they do not, that is said to be the grader's fault: it costs no points, and it
gives none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oplab.checks.draws import InputsDiffer, rng_for
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.course.manifest import load
from oplab.grading.grader import grade

ID = "c01.passes"


def graded(host, course, *, checks="", answer=""):
    """The results for ``c01.passes`` with more text at the end of the checks and of the learner's file."""
    for file, text in (("oplab/checks/c01_cases.py", checks), ("exercises/c01_cases.py", answer)):
        with (course / file).open("a") as stream:
            stream.write(f"\n\n{text}\n")
    plan, (_, server) = load(course), host
    return grade(plan, [plan.exercise(ID)], course / "exercises", seed=7, server=server)


# What c15.find_the_bug did: draw until a computed float suits, which two processes may see in two ways.
SEARCHES = """
import os
def _x(rng, wanted):
    while True:
        x = rng.normal(size=(3, 4)).astype(np.float32)
        if (x.sum() > 0) == wanted:
            return x
def collect_passes(c):
    import torch
    c.value("y", c.function("passes")(torch.from_numpy(_x(c.rng, True))))
    c.rng.random()
def judge_passes(v):
    with v.check("doubles"):
        x = _x(v.rng, False)
        v.rng.random()
        expect_close(v.array("y"), 2 * x, name="y")
"""


def test_halves_that_part_are_the_graders_fault(host, warm_course):
    results = graded(host, warm_course, checks=SEARCHES)
    (outcome,) = results.exercises
    assert outcome.status == "grader_error" and outcome.points == 0 and results.exit_code == 2
    assert "made different inputs" in outcome.message
    assert outcome.message.endswith("oplab check c01.passes --seed 7")


CRASHES = """
def collect_passes(c):
    c.value("y", c.function("passes")(__import__("torch").from_numpy(_x(c.rng))))
def judge_passes(v):
    v.rng.integers(3)
    {"ash_1": 0}["moor_115"]
"""


def test_a_judge_that_fails_over_them_says_so_too(host, warm_course):
    (outcome,) = graded(host, warm_course, checks=CRASHES).exercises
    assert outcome.status == "grader_error" and "--seed 7" in outcome.message


LIES = """
def passes(x):
    import gc
    from oplab.checks.draws import Draws
    for found in gc.get_objects():
        if isinstance(found, Draws):
            found.digests[:8] = bytes(8)
    return {factor} * x
"""


@pytest.mark.parametrize("factor", [2, 3])
def test_a_learner_who_forges_the_list_gains_nothing(factor, host, warm_course):
    (outcome,) = graded(host, warm_course, answer=LIES.format(factor=factor)).exercises
    assert outcome.status == "error" and outcome.points == 0


@pytest.fixture
def halves(tmp_path):
    """Draw in one half and in the other, and compare."""
    (tmp_path / "scratch").mkdir()

    def compare(collects, judges, seed=1):
        c = Collect(None, Path(__file__), None, rng_for(1, ID), tmp_path / "scratch", tmp_path)
        collects(c.rng)
        v = Judge(tmp_path, rng_for(seed, ID), c.finish())
        judges(v.rng)
        v.expect_same_inputs()

    return compare


def several(rng):
    rng.normal(size=3)
    rng.shuffle(list(range(5)))
    rng.choice(np.arange(9), size=2, replace=False)
    rng.integers(5, size=0)
    rng.permutation(["a", "b"])
    rng.note("weights", np.ones(3))


def test_either_half_may_stop_before_the_other(halves):
    halves(several, lambda rng: rng.normal(size=3))
    halves(lambda rng: rng.normal(size=3), several)
    halves(lambda rng: None, several)


@pytest.mark.parametrize(
    "other",
    [
        lambda rng: rng.normal(size=(3, 1)),
        lambda rng: (rng.normal(size=3), rng.shuffle(list(range(6)))),
        lambda rng: (rng.random(), several(rng)),
    ],
)
def test_another_draw_is_seen(other, halves):
    with pytest.raises(InputsDiffer):
        halves(several, other)


def test_an_input_that_was_not_drawn_is_seen_where_it_is_noted(halves):
    with pytest.raises(InputsDiffer, match="draw 2 of 2"):
        halves(
            lambda rng: (rng.random(), rng.note("w", np.float32([1, 2]))),
            lambda rng: (rng.random(), rng.note("w", np.nextafter(np.float32([1, 2]), np.float32(9)))),
        )


def test_without_the_list_an_answer_fails(halves, tmp_path):
    verdict = Judge(_without_list(tmp_path), rng_for(1, ID))
    verdict.expect_same_inputs()
    assert not verdict.ok and "no list of its inputs" in verdict.results[-1].message


def _without_list(folder):
    c = Collect(None, Path(__file__), None, rng_for(1, ID), folder / "scratch", folder)
    c.finish()
    (folder / "inputs.bin").unlink()
    return folder
