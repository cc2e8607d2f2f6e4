"""Part of the points for speed: what is measured, what it is worth, and that it never decides whether an answer passes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from oplab.authoring.lint import Trial
from oplab.checks import speed
from oplab.checks.draws import rng_for
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.course.manifest import Exercise
from oplab.grading import outcomes, text
from oplab.grading.protocol import Answer, Report, Share
from oplab.grading.results import Check, Results

SCALE = speed.Scale("the baseline", 0.1, 1.0, [(0.5, "step 2"), (1.0, "step 3")])
PLAIN = Exercise("x", "01_cases", "goal", 10, 1, 5, ("a", "b"))
FAST = dataclasses.replace(PLAIN, speed=True)
RIGHT = Check("is right", True)
WRONG = Check("is right", False, "It is wrong.")


def evidence(tmp_path, collect) -> Judge:
    c = Collect(None, Path("x.cpp"), None, rng_for(1, "c01.x"), tmp_path, tmp_path)
    collect(c)
    return Judge(tmp_path, rng_for(1, "c01.x"), c.finish())


def graded(exercise, checks, share, **options):
    return outcomes.from_judge(exercise, Answer(report=Report("judged", checks=tuple(checks), share=share)), **options)


def test_the_processor_clock_is_fine_under_a_limit_of_processor_time():
    """As in a worker. There ``time.process_time`` moves in the scheduler's steps, and most of what is measured is shorter."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (60, 62)); from oplab.checks.speed import processor_time\n"
        "seen = [processor_time() for _ in range(20_000)]; assert seen == sorted(seen) and len(set(seen)) > 100, len(set(seen))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("ratio", "worth"), [(0, 0), (0.1, 0), (1, 1), (9, 1), (float("nan"), 0), (0.1**0.5, 0.5)])
def test_equal_factors_are_worth_the_same(ratio, worth):
    assert SCALE.worth(ratio) == pytest.approx(worth)


def test_each_round_has_its_own_inputs_and_its_result_is_evidence(tmp_path):
    feeds = [{"x": np.full(3, number)} for number in range(4)]
    baseline = []

    def collect(c):
        speed.measure(c, lambda feeds: [2 * feeds["x"]], lambda feeds: baseline.append(feeds["x"][0]) or [], feeds)

    v = evidence(tmp_path, collect)
    assert [v.value(f"timed, round {number}")[0][0] for number in range(4)] == [0, 2, 4, 6]
    assert baseline == [0, 1, 2, 3]
    assert v.array("timed, seconds of ours").shape == v.array("timed, seconds of baseline").shape == (3,)
    assert speed.timed(v, feeds) == feeds


def test_a_slow_kernel_runs_twice(tmp_path):
    """A right answer passes at any speed, so its time must not reach the limit."""
    feeds, baseline = [{"x": np.full(3, number)} for number in range(8)], []

    def collect(c):
        speed.measure(c, lambda feeds: [feeds["x"]], lambda feeds: baseline.append(feeds["x"][0]) or [], feeds, slow=0)

    v = evidence(tmp_path, collect)
    assert baseline == [0, 1]
    assert v.array("timed, seconds of ours").shape == v.array("timed, seconds of baseline").shape == (1,)
    assert speed.timed(v, feeds) == feeds[:2]
    assert [v.value(f"timed, round {number}")[0][0] for number in range(2)] == [0, 1]


@pytest.mark.parametrize("ours", [np.zeros(3), np.full(3, np.nan), -np.ones(3), np.zeros(0)])
def test_seconds_that_cannot_be_are_worth_nothing(ours, tmp_path):
    def collect(c):
        c.value("timed, seconds of ours", ours)
        c.value("timed, seconds of baseline", np.ones(3))

    assert speed.ratio(evidence(tmp_path, collect)) == 0


@pytest.mark.parametrize(
    ("ratio", "pieces", "part", "words"),
    [
        (5, 9, 1.0, []),
        (5, 1, 0.8, ["step 'parallel'"]),
        (0.01, 9, 0.6, ["0.01 times the speed of the baseline", "step 2"]),
        (0, 0, 0.4, ["step 2", "step 'parallel'"]),
    ],
)
def test_shares(ratio, pieces, part, words, tmp_path):
    v = evidence(tmp_path, lambda c: None)
    speed.award(v, SCALE, ratio, pieces)
    assert v.share[0] == pytest.approx(part)
    assert all(word in v.share[1] for word in words)


def test_a_right_answer_passes_with_its_part_and_says_why():
    outcome = graded(FAST, [RIGHT], Share(0.44, "It is slow."))
    assert (outcome.status, outcome.points, outcome.message) == ("passed", 4, "It is slow.")
    assert "    It is slow." in text.outcome_lines(outcome)
    assert Results((outcome,), 1).exit_code == 0


def test_a_right_answer_never_gets_nothing_and_only_a_whole_share_gets_all_points():
    assert graded(FAST, [RIGHT], Share(0.0, "It is slow.")).points == 1
    assert graded(FAST, [RIGHT], Share(0.99, "It is slow.")).points == 9
    whole = graded(FAST, [RIGHT], Share(1.0, "It is fast."))
    assert (whole.points, whole.message) == (10, "It is fast.")
    assert graded(FAST, [RIGHT], None).points == 10


def test_a_wrong_answer_gets_nothing_however_fast_it_is():
    outcome = graded(FAST, [RIGHT, WRONG], Share(1.0, ""))
    assert (outcome.status, outcome.points) == ("failed", 0)


def test_points_are_not_shared_out_where_the_manifest_does_not_say_so():
    assert graded(PLAIN, [RIGHT], Share(0.5, "It is slow.")).status == "grader_error"


@pytest.mark.parametrize(
    ("exercise", "points", "kind", "fine"),
    [(FAST, 4, "alternative", True), (FAST, 0, "solution", False), (PLAIN, 4, "solution", False)],
)
def test_no_promise_of_the_course_depends_on_timing(exercise, points, kind, fine):
    outcome = dataclasses.replace(graded(exercise, [RIGHT], None), points=points)
    assert (Trial(exercise, kind, "", "", "passed").problem(outcome) == "") is fine
