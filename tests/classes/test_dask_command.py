"""`oplab class grade --cluster local:N`: the same grades as `--jobs`, whatever is killed meanwhile, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="Dask is an extra, which `make test` installs where pip has it")

from oplab.grading import processes
from tests.support.dask_lab import command_of, kill, wait
from tests.support.fixture_course import command, copy_course, own_libraries

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
    go = place / "course" / "build" / "lib"
    for number, login in enumerate(LEARNERS):
        if number < count:
            (go / login).touch()
        else:
            (go / login).unlink(missing_ok=True)


class Command:
    """`oplab class grade` with its own folder for temporary files, as the leader of a process group, as in a terminal."""

    def __init__(self, place: Path, out: str, *options: str, roster: str = "roster.csv"):
        self.grades, self.tmp = place / out, place / f"tmp-{out}"
        self.tmp.mkdir(exist_ok=True)
        given = ["--roster", str(place / roster), "-o", str(self.grades), "--seed", "11"]
        line, env = command(
            place / "course", "class", "grade", str(place / "in"), *given, "--exercises", "c01.passes", *options
        )
        self.printed = place / f"printed-{out}"
        with self.printed.open("w") as stream:
            self.process = subprocess.Popen(
                line,
                env={**env, "TMPDIR": str(self.tmp)},
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=place,
                start_new_session=True,
            )

    def verdicts(self) -> int:
        return len(list(self.grades.glob("verdicts/??/*.json")))

    def workers(self) -> list[int]:
        return [pid for pid in processes.descendants(self.process.pid) if "spawn_main" in command_of(pid)]

    def at_work(self) -> list[int]:
        """The workers with an answer that runs: below each are a fork server, a supervisor and the answer's own process."""
        below = {pid: map(command_of, processes.descendants(pid)) for pid in self.workers()}
        return [
            pid for pid, commands in below.items() if sum("fork_server import main" in one for one in commands) >= 3
        ]

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until it is seen."""
        os.killpg(self.process.pid, signal.SIGINT)
        wait(lambda: "Ctrl-C: what runs now" in self.printed.read_text(), 120)

    def family(self) -> list[int]:
        return [self.process.pid, *processes.descendants(self.process.pid)]

    def end(self) -> str:
        self.process.wait(300)
        printed = self.printed.read_text()
        assert "Traceback" not in printed, printed
        return printed


def test_a_class_of_three(place):
    let(place, 3)
    run = Command(place, "three", "--cluster", "local:2", roster="three.csv")
    printed = run.end()
    assert run.process.returncode == 0, printed
    assert (run.grades / "grades.csv").read_text() == "login,name,c01,total\nl00,,1,1\nl01,,0,0\nl02,,1,1\n"
    assert not list(run.tmp.iterdir())


@pytest.fixture(scope="module")
def quiet(place):
    """The grades of `--jobs`."""
    let(place, len(LEARNERS))
    run = Command(place, "quiet", "--jobs", "2")
    printed = run.end()
    assert run.process.returncode == 0, printed
    grades = (run.grades / "grades.csv").read_bytes()
    assert grades.count(b",1,1\n") == grades.count(b",0,0\n") == len(LEARNERS) // 2
    return grades


def gone(pids: list[int]) -> bool:
    return not any(command_of(pid) for pid in pids)


@pytest.mark.nightly
def test_whatever_is_killed_the_grades_are_the_same(place, quiet):
    let(place, 1)
    first = Command(place, "faulty", "--cluster", "local:2")  # a worker is killed, then Ctrl-C is pressed once
    wait(lambda: first.verdicts() == 1 and len(first.at_work()) == 2, 120)
    family = first.family()
    kill(first.at_work()[0])
    let(place, 4)
    wait(lambda: first.verdicts() == 4, 120)
    first.interrupt()
    family += first.family()
    let(place, len(LEARNERS))
    printed = first.end()
    assert "was lost" in printed
    assert first.process.returncode == 130
    assert "Run the same command again to go on" in printed
    wait(lambda: gone(family))
    assert not list(first.tmp.iterdir())

    kept = first.verdicts()
    assert 4 <= kept <= 6  # with what the two workers had begun
    let(place, 7)
    second = Command(place, "faulty", "--cluster", "local:1")  # Ctrl-C is pressed twice
    wait(lambda: second.verdicts() == 7, 120)
    family = second.family()
    second.interrupt()
    second.interrupt()
    second.end()
    assert second.process.returncode == 130
    wait(lambda: gone(family))
    assert second.verdicts() == 7
    assert not list(second.tmp.iterdir())

    let(place, 8)
    third = Command(place, "faulty", "--cluster", "local:1")  # the command itself is killed, and the scheduler with it
    wait(lambda: third.verdicts() == 8, 120)
    family = third.family()
    kill(third.process.pid)
    third.process.wait(60)
    wait(lambda: gone(family))

    let(place, len(LEARNERS))
    last = Command(place, "faulty", "--cluster", "local:1")
    printed = last.end()
    assert last.process.returncode == 0, printed
    assert (last.grades / "grades.csv").read_bytes() == quiet
    assert not list(last.tmp.iterdir())
