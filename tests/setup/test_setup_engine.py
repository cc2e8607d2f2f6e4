"""The engine of the set-up: stamps, kills, the lock, progress, and failures as sentences."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import setup_engine as engine

from tests.support import environment


class Copy(engine.Step):
    """A small real step: its product is a file made from another."""

    name = "Copy"

    def __init__(self, source: Path, target: Path, stamp: Path):
        self.source, self.target, self._stamp, self.runs = source, target, stamp, 0

    def stamp(self) -> Path:
        return self._stamp

    def inputs(self) -> str:
        return engine.digest(self.source)

    def intact(self, stamp: dict) -> bool:
        return self.target.exists()

    def run(self) -> dict:
        self.runs += 1
        self.target.write_text(self.source.read_text())
        return {"size": self.target.stat().st_size}


@pytest.fixture
def console() -> engine.Console:
    return engine.Console(io.StringIO())


@pytest.fixture
def steps(tmp_path: Path) -> list[Copy]:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    return [Copy(tmp_path / name, tmp_path / f"{name}.out", tmp_path / "stamps" / name) for name in "ab"]


def test_nothing_done_is_done_twice(steps: list[Copy], console: engine.Console) -> None:
    assert engine.run_steps(steps, console) == 2
    assert engine.run_steps(steps, console) == 0
    assert [step.runs for step in steps] == [1, 1]
    said = console.stream.getvalue()
    assert "[1/2] Copy ..." in said and "[2/2] Copy: done in 0.0 s" in said
    assert json.loads(steps[0].stamp().read_text())["size"] == 3


def test_a_changed_input_or_a_lost_product_runs_that_step_alone(steps: list[Copy], console: engine.Console) -> None:
    engine.run_steps(steps, console)
    steps[0].source.write_text("other")
    engine.run_steps(steps, console)
    assert [step.runs for step in steps] == [2, 1]
    steps[1].target.unlink()
    engine.run_steps(steps, console)
    assert [step.runs for step in steps] == [2, 2]


def test_a_broken_stamp_is_no_stamp(steps: list[Copy], console: engine.Console) -> None:
    engine.run_steps(steps, console)
    for text in ("", "{", "[]", "null", "\0"):
        steps[0].stamp().write_text(text)
        assert engine.run_steps(steps, console) == 1, text


def test_a_step_that_fails_has_no_stamp(steps: list[Copy], console: engine.Console) -> None:
    engine.run_steps(steps, console)
    steps[0].source.write_text("new")
    steps[0].target = Path("/dev/full")  # every write to it ends with "No space left on device"
    steps[0].intact = lambda stamp: True
    with pytest.raises(engine.SetupError, match="the disk is full") as caught:
        engine.run_steps(steps, console)
    assert "free some space" in caught.value.fix
    assert not steps[0].stamp().exists() and not steps[0].done()


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "cannot be written"), (errno.EACCES, "cannot be written")],
)
def test_an_os_error_is_a_sentence(number: int, words: str) -> None:
    sentence = engine.explain_os_error(OSError(number, os.strerror(number), "/some/file"))
    assert words in sentence.message and "/some/file" in sentence.message and sentence.fix


def test_digest_tells_contents_and_borders_apart(tmp_path: Path) -> None:
    path = tmp_path / "file"
    absent = engine.digest(path)
    path.write_text("text")
    assert (
        len({absent, engine.digest(path), engine.digest("text", ""), engine.digest("te", "xt"), engine.digest()}) == 5
    )
    assert engine.digest("a", path) == engine.digest("a", path)


def start(tmp_path: Path, body: str) -> subprocess.Popen[str]:
    """A Python process with the engine at hand, in a session of its own; its lines arrive as they are printed."""
    script = tmp_path / f"script{time.monotonic_ns()}.py"
    script.write_text("import sys\n" + textwrap.dedent(body))
    return subprocess.Popen(
        [sys.executable, "-u", str(script)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


SLOW_STEP = """
    import time, pathlib, setup_engine as engine
    home = pathlib.Path({home!r})
    class Slow(engine.Step):
        name = "Slow"
        def stamp(self): return home / "stamp.json"
        def inputs(self): return "same"
        def intact(self, stamp): return (home / "product").read_text() == "whole"
        def run(self):
            (home / "product").write_text("who")
            print("half", flush=True)
            time.sleep({seconds})
            (home / "product").write_text("whole")
            return {{}}
    print("ran", engine.run_steps([Slow()], engine.Console()))
"""


@pytest.mark.nightly
def test_a_kill_in_the_middle_is_repaired_by_a_repeat(tmp_path: Path) -> None:
    first = start(tmp_path, SLOW_STEP.format(home=str(tmp_path), seconds=60))
    assert first.stdout is not None
    for line in first.stdout:
        if line.strip() == "half":
            break
    first.kill()
    first.wait()
    assert (tmp_path / "product").read_text() == "who" and not (tmp_path / "stamp.json").exists()
    again = start(tmp_path, SLOW_STEP.format(home=str(tmp_path), seconds=0)).communicate(timeout=300)[0]
    assert again.endswith("ran 1\n") and (tmp_path / "product").read_text() == "whole"
    third = start(tmp_path, SLOW_STEP.format(home=str(tmp_path), seconds=0)).communicate(timeout=300)[0]
    assert third == "ran 0\n"


LOCKED = """
    import pathlib, sys, time, setup_engine as engine
    with engine.only_one(pathlib.Path({lock!r}), engine.Console()) as handle:
        print("in", flush=True)
        {inside}
    print("out", flush=True)
"""


def test_the_second_set_up_waits_and_says_so(tmp_path: Path) -> None:
    lock, go = str(tmp_path / "lock"), tmp_path / "go"
    held = f"[time.sleep(0.01) for _ in iter(pathlib.Path({str(go)!r}).exists, True)]"
    first = start(tmp_path, LOCKED.format(lock=lock, inside=held))
    assert first.stdout is not None and first.stdout.readline() == "in\n"
    second = start(tmp_path, LOCKED.format(lock=lock, inside=f"print('after', pathlib.Path({str(go)!r}).exists())"))
    assert second.stdout is not None
    said = second.stdout.readline()
    assert f"Another set-up of this folder is running (process {first.pid}). Waiting" in said
    go.touch()
    assert second.communicate(timeout=300)[0].endswith("in\nafter True\nout\n")
    first.communicate(timeout=300)


def test_the_lock_is_held_until_the_last_child_has_ended(tmp_path: Path) -> None:
    lock = str(tmp_path / "lock")
    script = f"echo started; until test -e {tmp_path}/go; do sleep 0.05; done; touch {tmp_path}/ended"
    child = f"engine.run_child(['sh', '-c', {script!r}], keep_open=[handle], on_line=print)"
    first = start(tmp_path, LOCKED.format(lock=lock, inside=child))
    assert first.stdout is not None
    assert [first.stdout.readline(), first.stdout.readline()] == ["in\n", "started\n"]
    first.kill()  # the set-up alone; its child goes on
    second = start(tmp_path, LOCKED.format(lock=lock, inside=f"print(pathlib.Path('{tmp_path}/ended').exists())"))
    assert second.stdout is not None and "Waiting for it to end" in second.stdout.readline()
    (tmp_path / "go").touch()
    assert second.communicate(timeout=300)[0].endswith("in\nTrue\nout\n")


def test_an_interrupt_ends_the_child_first(tmp_path: Path) -> None:
    body = f"""
    import setup_engine as engine
    engine.stop_on_signals()
    try:
        engine.run_child(["sh", "-c", "echo $$; exec sleep 60"], on_line=lambda line: print(line, flush=True))
    except engine.Stopped as stopped:
        print("stopped by", stopped.number, "in {tmp_path.name}")
    """
    process = start(tmp_path, body)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=300)[0].startswith("stopped by 15")
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_child_s_lines_status_and_log(tmp_path: Path) -> None:
    lines: list[str] = []
    log = tmp_path / "log"
    ended = engine.run_child(["sh", "-c", "echo one; echo two >&2; exit 3"], on_line=lines.append, log=log)
    assert (ended.code, ended.output, lines, log.read_text()) == (3, "one\ntwo", ["one", "two"], "one\ntwo\n")


def test_progress_without_a_terminal_prints_few_lines() -> None:
    for every, count in ((3600, 0), (0, 50)):
        stream = io.StringIO()
        progress = engine.Progress(stream, every=every)
        for number in range(50):
            progress.update(f"{number} of 50")
        assert stream.getvalue().count("\n") == count and "\r" not in stream.getvalue()


def test_progress_on_a_terminal_rewrites_one_line() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    console = engine.Console(stream)
    console.progress.update("1 of 2")
    console.progress.update("2 of 2")
    console.say("done")
    assert stream.getvalue().count("\n") == 1 and stream.getvalue().endswith("\r\033[Kdone\n")
