"""`oplab class grade --cluster local:N`: the same grades as `--jobs`, whatever is killed meanwhile, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="Dask is an extra, which `make test-all` installs where pip has it")

from oplab.grading import processes
from tests.support.dask_lab import SECONDS, command_of, kill, wait
from tests.support.fixture_course import command, copy_course, own_libraries

pytestmark = pytest.mark.nightly

LEARNERS = [f"l{number:02}" for number in range(12)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A course, and a class whose answers are all different, and wait until :func:`let` lets them end."""
    folder = tmp_path_factory.mktemp("class")
    course = copy_course(folder / "course")
    text = (course / "solutions" / "c01_cases.py").read_text()
    go = own_libraries(course)
    for number, login in enumerate(LEARNERS):
        (folder / "in" / login).mkdir(parents=True)
        slow = f"""
def passes(x):
    import os
    import time

    while not os.path.exists({str(go / login)!r}):
        time.sleep(0.02)
    return {2 + number % 2} * x
"""
        answer = text.replace("def passes(x):", "def before(x):", 1) + f"\n{slow}"
        (folder / "in" / login / "c01_cases.py").write_text(answer)
    for name, count in (("roster.csv", len(LEARNERS)), ("three.csv", 3)):
        (folder / name).write_text("login\n" + "\n".join(LEARNERS[:count]) + "\n")
    return folder


def let(place: Path, count: int) -> None:
    """Let so many answers end; they are graded in the roster's order. The others wait: a command is at work however late a signal is."""
    for number, login in enumerate(LEARNERS):
        file = place / "course" / "build" / "lib" / login
        file.touch() if number < count else file.unlink(missing_ok=True)


class Command:
    """`oplab class grade` with its own folder for temporary files, as the leader of a process group, as in a terminal."""

    def __init__(self, place: Path, out: str, *options: str, roster: str = "roster.csv"):
        self.grades, self.tmp, self.printed = place / out, place / f"tmp-{out}", place / f"printed-{out}"
        self.tmp.mkdir(exist_ok=True)
        given = ["--roster", str(place / roster), "-o", str(self.grades), "--seed", "11", "--exercises", "c01.passes"]
        line, env = command(place / "course", "class", "grade", str(place / "in"), *given, *options)
        env["TMPDIR"] = str(self.tmp)
        with self.printed.open("w") as out:
            self.process = subprocess.Popen(line, env=env, stdout=out, stderr=out, cwd=place, start_new_session=True)

    def has(self, verdicts: int) -> list[int]:
        """Wait until it has so many verdicts. Its processes."""
        wait(lambda: len(list(self.grades.glob("verdicts/??/*.json"))) == verdicts)
        return [self.process.pid, *processes.descendants(self.process.pid)]

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until it is seen."""
        os.killpg(self.process.pid, signal.SIGINT)
        wait(lambda: "Ctrl-C: finishing the running answers" in self.printed.read_text())

    def end(self, code: int, family: list[int] = ()) -> str:
        """Wait for its end, and that of its processes. What it printed."""
        self.process.wait(SECONDS)
        printed = self.printed.read_text()
        assert self.process.returncode == code and "Traceback" not in printed, printed
        wait(lambda: not any(map(command_of, family)))
        assert code < 0 or not list(self.tmp.iterdir())
        return printed


def test_a_class_of_three(place):
    let(place, 3)
    run = Command(place, "three", "--cluster", "local:2", roster="three.csv")
    run.end(0)
    assert (run.grades / "grades.csv").read_text() == "login,name,c01,total\nl00,,1,1\nl01,,0,0\nl02,,1,1\n"


def test_whatever_is_killed_the_grades_are_the_same(place):
    let(place, len(LEARNERS))
    quiet = Command(place, "quiet", "--jobs", "2")
    quiet.end(0)

    let(place, 1)
    first = Command(place, "faulty", "--cluster", "local:2")  # a worker is killed, then Ctrl-C is pressed once
    family = first.has(1)
    kill(next(pid for pid in family if "spawn_main" in command_of(pid)))
    let(place, 4)
    family += first.has(4)
    first.interrupt()
    let(place, len(LEARNERS))
    printed = first.end(130, family)
    assert printed.count("was lost; its answer is graded again") == 1
    assert "Run the same command again to resume" in printed
    kept = len(list(first.grades.glob("verdicts/??/*.json")))
    assert 4 <= kept <= 6  # with what the two workers had begun

    let(place, 7)
    second = Command(place, "faulty", "--cluster", "local:1")  # Ctrl-C is pressed twice
    family = second.has(7)
    second.interrupt()
    second.interrupt()
    second.end(130, family)

    let(place, 8)
    third = Command(place, "faulty", "--cluster", "local:1")  # the command itself is killed, and the scheduler with it
    family = third.has(8)
    kill(third.process.pid)
    third.end(-signal.SIGKILL, family)

    let(place, len(LEARNERS))
    last = Command(place, "faulty", "--cluster", "local:1")
    last.end(0)
    assert (last.grades / "grades.csv").read_bytes() == (quiet.grades / "grades.csv").read_bytes()
