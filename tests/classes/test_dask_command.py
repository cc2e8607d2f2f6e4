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
from tests.support.fixture_course import command, copy_course

# So many that a command is still at work when a late signal reaches it.
LEARNERS = [f"l{number}" for number in range(12)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A course, and a class whose answers are all different and take a moment."""
    folder = tmp_path_factory.mktemp("class")
    text = (copy_course(folder / "course") / "solutions" / "c01_cases.py").read_text()
    for number, login in enumerate(LEARNERS):
        (folder / "in" / login).mkdir(parents=True)
        slow = (
            f"def passes(x):\n    import time\n\n    time.sleep(0.5)\n    return {2 + number % 2} * x + 0 * {number}\n"
        )
        answer = text.replace("def passes(x):", "def before(x):", 1) + f"\n\n{slow}"
        (folder / "in" / login / "c01_cases.py").write_text(answer)
    (folder / "roster.csv").write_text("login\n" + "\n".join(LEARNERS) + "\n")
    return folder


class Command:
    """`oplab class grade` with its own folder for temporary files, as the leader of a process group, as in a terminal."""

    def __init__(self, place: Path, out: str, *options: str):
        self.grades, self.tmp = place / out, place / f"tmp-{out}"
        self.tmp.mkdir(exist_ok=True)
        given = ["--roster", str(place / "roster.csv"), "-o", str(self.grades), "--seed", "11"]
        line, env = command(
            place / "course", "class", "grade", str(place / "in"), *given, "--exercises", "c01.passes", *options
        )
        self.process = subprocess.Popen(
            line,
            env={**env, "TMPDIR": str(self.tmp)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=place,
            start_new_session=True,
        )

    def verdicts(self) -> int:
        return len(list(self.grades.glob("verdicts/??/*.json")))

    def workers(self) -> list[int]:
        return [pid for pid in processes.descendants(self.process.pid) if "spawn_main" in command_of(pid)]

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def family(self) -> list[int]:
        return [self.process.pid, *processes.descendants(self.process.pid)]

    def end(self) -> str:
        printed, _ = self.process.communicate(timeout=300)
        assert "Traceback" not in printed, printed
        return printed


@pytest.fixture(scope="module")
def quiet(place):
    """The grades of `--jobs`."""
    run = Command(place, "quiet", "--jobs", "2")
    printed = run.end()
    assert run.process.returncode == 0, printed
    grades = (run.grades / "grades.csv").read_bytes()
    assert grades.count(b",1,1\n") == grades.count(b",0,0\n") == len(LEARNERS) // 2
    return grades


def gone(pids: list[int]) -> bool:
    return not any(command_of(pid) for pid in pids)


def test_whatever_is_killed_the_grades_are_the_same(place, quiet):
    first = Command(place, "faulty", "--cluster", "local:2")  # a worker is killed, then Ctrl-C is pressed once
    wait(lambda: first.verdicts() >= 1, 120)
    family = first.family()
    kill(first.workers()[0])
    kept = first.verdicts()
    wait(lambda: first.verdicts() > kept, 120)
    first.interrupt()
    family += first.family()
    printed = first.end()
    assert "was lost" in printed
    if first.process.returncode != 0:  # it may have been at its last answer
        assert first.process.returncode == 130
        assert "Run the same command again to go on" in printed
    wait(lambda: gone(family))
    assert not list(first.tmp.iterdir())

    kept = first.verdicts()
    assert 2 <= kept < len(LEARNERS)
    second = Command(place, "faulty", "--cluster", "local:1")  # Ctrl-C is pressed twice
    wait(lambda: second.verdicts() > kept, 120)
    family = second.family()
    second.interrupt()
    second.interrupt()
    second.end()
    assert second.process.returncode == 130
    wait(lambda: gone(family))
    assert second.verdicts() > kept
    assert not list(second.tmp.iterdir())

    kept = second.verdicts()
    third = Command(place, "faulty", "--cluster", "local:1")  # the command itself is killed, and the scheduler with it
    wait(lambda: third.verdicts() > kept or third.process.poll() is not None, 120)
    family = third.family()
    kill(third.process.pid)
    third.process.communicate()
    wait(lambda: gone(family))

    last = Command(place, "faulty", "--cluster", "local:1")
    printed = last.end()
    assert last.process.returncode == 0, printed
    assert (last.grades / "grades.csv").read_bytes() == quiet
    assert not list(last.tmp.iterdir())
