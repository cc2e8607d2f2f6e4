"""Every hostile submission, graded beside honest ones: no point, no harm to others, nothing left behind.

Runs with limits only, and with ``--isolate``: they grade the whole catalogue and honest exercises between its entries.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from oplab.grading import isolation
from tests.support.hostile_course import LANDLOCK, HostileCourse, Run, attacks, judge

ATTACKS = attacks()
# They have their own course and are not in `make test`: on a busy machine a bomb outlives its exercise, and counts against the next one.
BOMBS = [entry for entry in ATTACKS if "fork_bomb" in entry.name]
LIMITED = [pytest.param(entry, marks=pytest.mark.nightly if entry in BOMBS else (), id=entry.name) for entry in ATTACKS]
ISOLATED = pytest.param("isolated", marks=pytest.mark.nightly)
OFFERED = isolation.detect(isolation.Path("/"), isolation.Path("/"))
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits on families of processes need Linux"
)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    unstopped = {"isolation"}
    if isolation.can_signal_outside():
        unstopped.add("scopes")
    if not LANDLOCK:
        unstopped.add("files")
    chosen = [entry for entry in ATTACKS if entry.head["stopped by"] not in unstopped and entry not in BOMBS]
    return HostileCourse(tmp_path_factory.mktemp("limits") / "course", chosen)


@pytest.fixture(scope="module")
def plain(course) -> Run:
    """With limits only."""
    return course.check()


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> tuple[HostileCourse, Run]:
    """With limits only, on a kernel without Landlock, what writes to the course's files."""
    chosen = [entry for entry in ATTACKS if "changes" in entry.head]
    course = HostileCourse(tmp_path_factory.mktemp("bare") / "course", chosen, landlock=False)
    return course, course.check()


@pytest.fixture(scope="module")
def spied_on(tmp_path_factory) -> tuple[HostileCourse, Run]:
    """With limits only, a course of its own for what nothing stops then: another attack may have written to what these read."""
    chosen = [entry for entry in ATTACKS if entry.head["stopped by"] == "isolation"]
    course = HostileCourse(tmp_path_factory.mktemp("spied") / "course", chosen)
    return course, course.check()


@pytest.fixture(scope="module")
def bombed(tmp_path_factory) -> tuple[HostileCourse, Run]:
    """With limits only, fork bombs."""
    course = HostileCourse(tmp_path_factory.mktemp("bombs") / "course", BOMBS)
    run = course.check()
    assert {run.outcomes[id]["status"] for id in course.honest} == {"passed"}
    return course, run


@pytest.fixture(scope="module")
def isolated_courses(tmp_path_factory):
    """Two, because a course has at most 100 chapters."""
    if not OFFERED.offered:
        pytest.skip("this machine offers neither bubblewrap nor Landlock")
    return [HostileCourse(tmp_path_factory.mktemp("isolated") / "course", ATTACKS[half::2]) for half in (0, 1)]


@pytest.fixture(scope="module")
def isolated(isolated_courses) -> list[Run]:
    return [course.check("--isolate") for course in isolated_courses]


def test_the_catalogue_is_large_enough_and_each_entry_says_what_it_does():
    assert len(ATTACKS) >= 30
    for attack in ATTACKS:
        assert attack.head["does"] and attack.head["status"], attack.name
        assert attack.head["stopped by"] in {
            "limits",
            "split",
            "grader",
            "files",
            "reading",
            "policy",
            "scopes",
            "isolation",
        }


@pytest.mark.parametrize("attack", LIMITED)
def test_no_point_with_limits_only(attack, request):
    if attack in BOMBS:
        course, run = request.getfixturevalue("bombed")
    elif attack.head["stopped by"] == "isolation":
        course, run = request.getfixturevalue("spied_on")
    else:
        course = request.getfixturevalue("course")
        if attack.name not in course.ids:
            pytest.skip(
                "this kernel lets a worker write anywhere, or send signals to the grader: stopped only by isolation"
            )
        run = request.getfixturevalue("plain")
    judge(run, course.ids[attack.name], attack, isolated=False)


@pytest.mark.nightly
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_no_point_in_isolation(attack, isolated_courses, isolated):
    course, run = next(pair for pair in zip(isolated_courses, isolated, strict=True) if attack.name in pair[0].ids)
    judge(run, course.ids[attack.name], attack, isolated=True)


@pytest.mark.parametrize("kind", ["plain", ISOLATED])
def test_honest_neighbours_pass(kind, request):
    runs = request.getfixturevalue(kind)
    courses = request.getfixturevalue("course" if kind == "plain" else "isolated_courses")
    pairs = [(courses, runs)] if kind == "plain" else list(zip(courses, runs, strict=True))
    assert sum(len(course.honest) for course, _ in pairs) > 10
    for course, run in pairs:
        for id in course.honest:
            assert run.outcomes[id]["status"] == "passed", f"{id}: {run.outcomes[id]['message']}"


@pytest.mark.parametrize("kind", ["plain", ISOLATED])
def test_nothing_is_left_behind(kind, request):
    found = request.getfixturevalue(kind)
    for run in [found] if kind == "plain" else found:
        assert run.survivors == []
        assert run.litter == []
        assert "Traceback" not in run.process.stderr


@pytest.mark.nightly
def test_isolation_leaves_the_course_as_it_was(isolated):
    assert [run.changed for run in isolated] == [[], []]


@pytest.mark.skipif(not LANDLOCK, reason="this kernel lets a worker write anywhere")
def test_landlock_leaves_the_course_as_it_was_without_isolation_too(plain):
    assert plain.changed == []


@pytest.mark.nightly
def test_without_landlock_every_change_is_told_and_gives_no_point(bare):
    """What was changed in the course is named in the message of an exercise that ran at that time."""
    course, run = bare
    told = " ".join(outcome["message"] for outcome in run.outcomes.values())
    for name, id in course.ids.items():
        attack = next(attack for attack in ATTACKS if attack.name == name)
        judge(run, id, attack, isolated=False, landlock=False)
        assert attack.head["changes"] in told, name
    assert run.changed, "the attacks did nothing: this test would prove nothing"


@pytest.mark.nightly
def test_isolation_says_in_one_line_what_is_in_use(isolated):
    first = isolated[0].process.stdout.splitlines()[0]
    assert first.startswith("Isolation: ") and "solutions/ hidden" in first


OUT_OF_REACH = [entry for entry in ATTACKS if entry.head["stopped by"] in {"grader", "files", "scopes", "isolation"}]


@pytest.fixture(scope="module")
def landlock_course(tmp_path_factory):
    if not isolation.landlock_abi():
        pytest.skip("this machine's kernel offers no Landlock")
    return HostileCourse(tmp_path_factory.mktemp("landlock") / "course", OUT_OF_REACH)


@pytest.fixture(scope="module")
def landlocked(landlock_course, tmp_path_factory) -> Run:
    """In isolation, on a machine whose PATH has everything but bubblewrap."""
    tools = tmp_path_factory.mktemp("tools")
    for folder in (Path("/bin"), Path("/usr/bin")):
        for program in folder.iterdir():
            link = tools / program.name
            if program.name != "bwrap" and not link.is_symlink():
                link.symlink_to(program)
    return landlock_course.check("--isolate", path=str(tools))


@pytest.mark.nightly
@pytest.mark.parametrize("attack", OUT_OF_REACH, ids=lambda attack: attack.name)
def test_landlock_alone_stops_the_same(attack, landlock_course, landlocked):
    judge(landlocked, landlock_course.ids[attack.name], attack, isolated=True)


@pytest.mark.nightly
def test_landlock_alone_leaves_the_course_as_it_was(landlock_course, landlocked):
    assert landlocked.process.stdout.startswith("Isolation: Landlock")
    assert landlocked.changed == landlocked.survivors == landlocked.litter == []
    for id in landlock_course.honest:
        assert landlocked.outcomes[id]["status"] == "passed", landlocked.outcomes[id]["message"]


@pytest.mark.nightly
def test_a_machine_that_offers_nothing_says_so_and_goes_on(tmp_path):
    nothing = "from oplab.grading import isolation as i\ni.landlock_abi = lambda: 0\ni._working_bubblewrap = lambda: ''"
    course = HostileCourse(tmp_path / "course", [])
    run = course.check("--isolate", first=nothing)
    first, *rest = run.process.stdout.splitlines()
    assert first == "Isolation: this system offers neither bubblewrap nor Landlock; continuing with limits only."
    assert rest and {entry["status"] for entry in run.outcomes.values()} == {"passed"}
