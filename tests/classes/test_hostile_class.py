"""Hostile answers in a class: no point, no neighbour's grade changed, nothing left behind, and the run goes on to its end.

Every fourth attack of the catalogue, and all that kill or starve what runs with them; ``OPLAB_ALL_ATTACKS=1`` hands in all of them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from oplab.classes import records
from oplab.grading import isolation
from tests.support.hostile_course import Attack, HostileCourse, Run, attacks

OFFERED = isolation.detect(Path("/"), Path("/")).offered
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not OFFERED, reason="this machine offers neither bubblewrap nor Landlock"),
]
MALLORYS = 4  # learners who share the attacks; as many honest ones are between them
# These end what grades them, or take the machine from it.
SERIOUS = re.compile("kills|bomb|memory|fills_disk|many_files|daemon|deletes|stops")


def classes() -> list[list[Attack]]:
    found = attacks()
    if os.environ.get("OPLAB_ALL_ATTACKS"):
        return [found[0::2], found[1::2]]  # two, because a course has at most 100 chapters
    return [[attack for place, attack in enumerate(found) if place % 4 == 0 or SERIOUS.search(attack.name)]]


@pytest.fixture(scope="module", params=classes(), ids=lambda chosen: f"{len(chosen)} attacks")
def graded(request, tmp_path_factory) -> tuple[HostileCourse, dict[str, set[str]], Run]:
    folder = tmp_path_factory.mktemp("class")
    course = HostileCourse(folder / "course", request.param)
    learners: dict[str, set[str]] = {}
    for number in range(MALLORYS):
        learners[f"honest{number}"] = set(course.honest[number::MALLORYS])
        learners[f"mallory{number}"] = set(list(course.ids.values())[number::MALLORYS])
    return course, learners, course.grade_class(learners, folder / "grades")


def test_the_run_ends_and_says_so(graded):
    _, _, run = graded
    assert run.process.returncode in (0, 2), run.process.stdout + run.process.stderr
    assert "Traceback" not in run.process.stderr


def test_no_attack_has_a_point(graded):
    course, _, run = graded
    for attack in attacks():
        if attack.name not in course.ids:
            continue
        outcome = run.outcomes.get(course.ids[attack.name])
        if outcome is None:  # no verdict: the answer claims that the grader is at fault
            assert attack.status(isolated=True) == "grader_error", attack.name
            continue
        # In isolation, nothing was left to punish in what only the course's files would have suffered from.
        harmless = attack.head["stopped by"] == "grader" and attack.status(isolated=True) == "passed"
        assert outcome["points"] == (1 if harmless else 0), (attack.name, outcome)
        assert outcome["status"] != "passed" or harmless, attack.name


def test_honest_answers_between_them_have_their_points(graded):
    course, _, run = graded
    assert len(course.honest) > 5
    for id in course.honest:
        assert (run.outcomes[id]["status"], run.outcomes[id]["points"]) == ("passed", 1), run.outcomes[id]


def test_nothing_is_left_and_nothing_was_changed(graded):
    _, _, run = graded
    assert run.survivors == [] and run.litter == []
    assert run.changed == []


def test_every_verdict_is_kept_once(graded):
    course, learners, _ = graded
    kept = records.load(course.folder.parent / "grades")
    keys = [task.key for tries in kept.submissions.values() for one in tries for task in one.tasks.values()]
    assert set(kept.verdicts) <= set(keys)
    assert sorted(kept.submissions) == sorted(learners)
