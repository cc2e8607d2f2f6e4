"""A task that takes the machine from others, or changes the grader's files, spoils no neighbour's result."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from oplab.classes import local
from oplab.classes.neighbours import Neighbours
from oplab.classes.records import Verdict
from oplab.grading.results import Outcome

GREEDY = "It started more than 64 processes and was stopped, with all of them."
CHANGED = (
    "While it ran, oplab/errors.py was changed. No points are given for a run that changes what the grader relies on."
)


def task(key):
    return {"key": key, "exercise": "c00.x", "seed": 1, "versions": {}, "answer": "", "text": ""}


def verdict(key, status, message=""):
    outcome = Outcome("c00.x", "00_x", status, 0, 1, 0.0, message)
    return Verdict(key, "c00.x", outcome, 1, {}, "", 0.0, "here", datetime(2026, 1, 1, tzinfo=UTC))


def keys(found):
    return [one.key for one in found]


def together(*ends):
    """Begin all tasks, end them in this order; what counts after each end, and what runs again."""
    neighbours = Neighbours()
    for key, *_ in ends:
        neighbours.begin(task(key))
    counted = [keys(neighbours.end(task(key), verdict(key, *how))) for key, *how in ends]
    return counted, [one["key"] for one in neighbours.suspected()]


def test_a_crash_next_to_honest_tasks_counts_when_they_have_ended():
    assert together(("a", "crashed"), ("b", "passed"), ("c", "failed")) == ([[], ["b"], ["c", "a"]], [])


@pytest.mark.parametrize("status", ["crashed", "timeout", "grader_error"])
def test_a_crash_next_to_a_greedy_task_is_graded_again(status):
    assert together(("a", status), ("b", "error", GREEDY)) == ([[], ["b"]], ["a"])
    assert together(("b", "error", GREEDY), ("a", status)) == ([["b"], []], ["a"])


def test_files_that_changed_while_two_ran_say_nothing_about_either():
    assert together(("a", "error", CHANGED), ("b", "error", CHANGED)) == ([[], []], ["a", "b"])


def test_what_ran_alone_counts():
    for how in (("crashed",), ("error", CHANGED), ("error", GREEDY)):
        assert together(("a", *how)) == ([["a"]], [])


def test_the_engine_grades_suspects_again_alone(monkeypatch):
    """Two tasks that wait for each other: both run at the same time, and the one that crashed passes when it is alone."""
    import threading

    meeting = threading.Barrier(2)
    seen = []

    def grade(self, task):
        seen.append(task["key"])
        if seen.count(task["key"]) == 1:
            meeting.wait(120)
            return verdict("a", "crashed") if task["key"] == "a" else verdict("b", "error", GREEDY)
        return verdict("a", "passed")

    monkeypatch.setattr(local.Grader, "grade", grade)
    engine = local.LocalEngine(2)
    found = {one.key: one.outcome.status for one in engine.submit([task("a"), task("b")])}
    engine.close()
    assert found == {"a": "passed", "b": "error"} and sorted(seen) == ["a", "a", "b"]
