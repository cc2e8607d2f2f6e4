"""A kill at each change of the disk, and writes that fail in their middle: what a learner wrote stays whole, and progress stays readable.

The kills are planted in a fork: Python reports each change of the disk to an audit hook before it happens.
"""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oplab.cli import learn
from oplab.course import answers
from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.grading import last, processes, progress
from oplab.grading.results import Outcome, Results
from tests.support.fixture_course import command
from tests.support.forks import fork

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime", "os.link", "os.truncate"}
MINE = b"def passes(x):\n    return x + x  # mine\n"
PASSED = Results((Outcome("c01.x", "01_x", "passed", 2, 2, 0.1),), seed=1)
FAILED = Results((Outcome("c01.x", "01_x", "failed", 0, 2, 0.1, "no"),), seed=1)


def forked(work: Callable[[], object]) -> int:
    """How a fork ends that does ``work`` and prints nothing."""

    def quietly() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        work()

    return os.waitstatus_to_exitcode(os.waitpid(fork(quietly), 0)[1])


def killed_before(change: int, work: Callable[[], object]) -> bool:
    """Do ``work`` in a fork that ends, without any cleanup, before so many changes of the disk. Whether there were so many."""

    def audited() -> None:
        left = change

        def hook(event: str, arguments: tuple) -> None:
            nonlocal left
            writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if writes or event in CHANGES:
                left -= 1
                if left == 0:
                    os._exit(9)

        sys.addaudithook(hook)
        work()

    code = forked(audited)
    assert code in (0, 9)
    return code == 9


def on_a_full_disk(limit: int, work: Callable[[], object]) -> None:
    """Do ``work`` in a fork whose writes end after ``limit`` bytes of a file."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        work()

    assert forked(limited) == 0


def files(course: Path) -> dict[str, bytes]:
    """The learner's files; a name with a leading dot is a draft that a killed command left."""
    found = (path for path in (course / "exercises").rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(course).as_posix(): path.read_bytes() for path in found}


def test_a_reset_that_is_killed(course, monkeypatch):
    monkeypatch.setenv("OPLAB_ROOT", str(course))
    plan, file = load(course), course / "exercises" / "c01_cases.py"
    stub = answers.stub_text(plan, plan.exercise("c01.passes")).encode()
    others = {name: text for name, text in files(course).items() if "/c01_" not in name}
    seen = []
    for change in itertools.count(1):
        file.write_bytes(MINE)
        killed = killed_before(change, lambda: learn.reset("c01"))
        now = file.read_bytes()
        assert now in (MINE, stub), f"half a file before change {change}"
        if now == stub:
            backups = (path.read_bytes() for path in (course / "build" / "backup").rglob("c01_cases*.py"))
            assert MINE in backups, f"no backup before change {change}"
        assert others.items() <= files(course).items()
        seen.append(now == stub)
        if not killed:
            break
    assert seen[-1] and seen.count(False) > 5, "no kill came before the file was replaced: this proves nothing"


@pytest.mark.parametrize(("mine", "limit"), [("x = 1\n", 1000), ("x = 1\n" * 1000, 1000)])
def test_a_reset_on_a_full_disk(mine, limit, course, monkeypatch):
    """A write that ends in its middle: of the stub in the first case, of the backup in the second."""
    monkeypatch.setenv("OPLAB_ROOT", str(course))
    file = course / "exercises" / "c01_cases.py"
    file.write_text(mine)

    def reset() -> None:
        with pytest.raises(OplabError, match="cannot be written: File too large"):
            learn.reset("c01")

    on_a_full_disk(limit, reset)
    assert file.read_text() == mine


def test_progress_that_is_written_when_the_process_is_killed(tmp_path):
    seen = set()
    for change in itertools.count(1):
        progress.record(tmp_path, PASSED)
        killed, told = killed_before(change, lambda: progress.record(tmp_path, FAILED)), []
        entry = progress.load(tmp_path, told.append).entry("c01.x")
        assert told == [] and entry.passed_once
        assert last.load(tmp_path, "c01.x")["status"] in ("passed", "failed")
        seen.add(entry.status)
        if not killed:
            break
    assert seen == {"passed", "failed"}


def test_progress_on_a_full_disk(tmp_path):
    progress.record(tmp_path, PASSED)
    before = (tmp_path / "progress.json").read_text()

    def record() -> None:
        told = []
        progress.record(tmp_path, FAILED, told.append)
        assert told == ["Progress is not saved: File too large."]

    on_a_full_disk(10, record)
    assert (tmp_path / "progress.json").read_text() == before


@pytest.mark.nightly
def test_a_check_on_a_full_disk(course):
    line, env = command(course, "check", "c01.passes")
    limit = f"import os, resource, sys; resource.setrlimit({resource.RLIMIT_FSIZE}, (10, 10)); os.execv(sys.argv[1], sys.argv[1:])"
    ended = subprocess.run([sys.executable, "-c", limit, *line], env=env, capture_output=True, text=True)
    assert "Traceback" not in ended.stdout + ended.stderr, ended
    assert "cannot write to its temporary folder: File too large" in ended.stdout
    assert "Progress is not saved: File too large" in ended.stdout + ended.stderr


SLOW = """
import ctypes
import time


def passes(x):
    ctypes.CDLL(None).prctl(15, b"{name}", 0, 0, 0)  # PR_SET_NAME: an isolated answer can tell nobody in another way
    time.sleep(900)
"""


@pytest.mark.nightly
@pytest.mark.skipif(not processes.LINUX, reason="processes are found in /proc")
@pytest.mark.parametrize("words", ["check c01.passes", "check c01.passes --isolate", "watch"])
def test_a_command_that_is_killed_leaves_no_process(words, course):
    """While the learner's code runs. Servers end when they see that the command is gone."""
    file, slow = course / "exercises" / "c01_cases.py", SLOW.format(name="begun")
    line, env = command(course, *words.split())
    if words != "watch":
        file.write_text(slow)
    with subprocess.Popen(line, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as running:
        if words == "watch":
            while "Watching" not in running.stdout.readline():
                assert running.poll() is None
            file.write_text(slow)
        wait_for(lambda: "begun" in [name(pid) for pid in processes.descendants(running.pid)])
        family = processes.descendants(running.pid)
        running.kill()
    wait_for(lambda: not any(name(pid) for pid in family))
    assert file.read_text() == slow
    told = []
    progress.load(course / "build", told.append)
    assert told == []


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def name(pid: int) -> str:
    """What a process calls itself; empty when it has ended."""
    try:
        found, _, state = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(") ")
    except OSError:
        return ""
    return "" if state.startswith("Z") else found
