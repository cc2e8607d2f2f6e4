"""The command on this machine: the same grades as `oplab check`, whatever is killed meanwhile, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from oplab.classes import records
from oplab.course.manifest import load
from oplab.grading import processes
from oplab.grading.grader import grade
from tests.support.fixture_course import command, copy_course, own_libraries

IDS = ("c01.passes", "c01.fails", "c01.untouched", "c01.raises", "c01.exits", "c01.compiles", "c03")
SEED = 11


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A course, and a class of three with the fixture's answers; one of them changed one answer, which waits for the file ``go``."""
    folder = tmp_path_factory.mktemp("class")
    course = copy_course(folder / "course")
    for login in ("ada", "bob", "cem"):
        shutil.copytree(course / "exercises", folder / "in" / login)
    changed = folder / "in" / "bob" / "c01_cases.py"
    go = own_libraries(course) / "go"
    go.touch()
    waits = (
        f"import os, time; [time.sleep(0.02) for _ in iter(lambda: os.path.exists({str(go)!r}), True)]; return x * 2"
    )
    changed.write_text(changed.read_text().replace("return 2 * x", waits, 1), newline="\r\n")
    (folder / "roster.csv").write_text("login\nada\nbob\ncem\n")
    (folder / "tmp").mkdir()
    return folder


def start(place: Path, out: str) -> subprocess.Popen[str]:
    options = ["--roster", str(place / "roster.csv"), "-o", str(place / out), "--jobs", "1", "--seed", str(SEED)]
    line, env = command(place / "course", "class", "grade", str(place / "in"), *options, "--exercises", ",".join(IDS))
    env["TMPDIR"] = str(place / "tmp")
    return subprocess.Popen(line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place)


def until(what, seconds=120.0):
    """Wait until ``what()`` is true, and return it."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


def run(place: Path, out: str) -> tuple[str, str]:
    process = start(place, out)
    printed, warned = process.communicate(timeout=300)
    assert process.returncode == 0, warned
    return printed, warned


def result(folder: Path):
    grades = records.load(folder)
    return {
        (login, id): (verdict.outcome.status, verdict.outcome.points, verdict.outcome.message, verdict.outcome.checks)
        for login, (one,) in grades.submissions.items()
        for id in one.tasks
        if (verdict := grades.verdict(one, id))
    }


@pytest.fixture(scope="module")
def quiet(place):
    """The grades of a run without faults."""
    printed, _ = run(place, "quiet")
    assert "grades.csv written" in printed
    return result(place / "quiet")


def test_the_grades_are_those_of_oplab_check(place, quiet):
    course = load(place / "course")
    chosen = course.select(IDS)
    expected = {outcome.id: outcome for outcome in grade(course, chosen, place / "in" / "ada", seed=SEED).exercises}
    for id, outcome in expected.items():
        assert quiet["ada", id] == quiet["cem", id] == (outcome.status, outcome.points, outcome.message, outcome.checks)
    different = {id for id in expected if quiet["ada", id] != quiet["bob", id]}
    assert different == set() and {outcome.status for outcome in expected.values()} >= {
        "passed",
        "failed",
        "todo",
        "error",
    }


@pytest.mark.nightly
def test_whatever_is_killed_the_grades_are_the_same(place, quiet):
    verdicts = lambda: {path.stem for path in (place / "faulty" / "verdicts").glob("??/*.json")}  # noqa: E731

    def ran():
        return len(
            [key for key in verdicts() if (found := records.load_verdict(place / "faulty", key)) and found.machine]
        )

    go = place / "course" / "build" / "lib" / "go"
    go.unlink()  # the command is at work then, however late a signal is
    first = start(place, "faulty")  # its grading process is killed, and then Ctrl-C is pressed
    until(lambda: ran() >= 1)
    (child, *_) = processes.children(first.pid)
    os.kill(child, signal.SIGKILL)
    count = ran()
    until(lambda: ran() > count)
    first.send_signal(signal.SIGINT)
    go.touch()
    _, warned = first.communicate(timeout=120)
    kept = verdicts()
    if first.returncode != 0:  # it may have been at its last answer
        assert (
            first.returncode == 130 and "Run the same command again to resume" in warned and "Traceback" not in warned
        )
    go.unlink()

    second = start(place, "faulty")  # all is killed at once, as by a system that is out of memory
    until(lambda: second.poll() is not None or processes.children(second.pid))
    family = [second.pid, *processes.descendants(second.pid)]
    second.kill()
    second.communicate()
    until(lambda: not [pid for pid in family if Path(f"/proc/{pid}/cmdline").exists() and b"oplab" in _line(pid)])

    go.touch()
    run(place, "faulty")
    assert verdicts() >= kept
    assert result(place / "faulty") == quiet
    assert not list(place.rglob(".new-*")) and list((place / "tmp").glob("oplab-*")) == []
    assert (place / "faulty" / "grades.csv").read_bytes() == (place / "quiet" / "grades.csv").read_bytes()


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
