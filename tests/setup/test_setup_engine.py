"""The engine of the set-up: stamps, kills, the lock, progress, and failures as sentences."""

from __future__ import annotations

import errno
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


@pytest.fixture
def steps(tmp_path: Path) -> list[engine.Step]:
    """Two small real steps: the product of each is a copy of a file."""

    def copy(name: str) -> engine.Step:
        source, target = tmp_path / name, tmp_path / f"{name}.out"
        source.write_text(name)

        def run(before: dict) -> dict:
            target.write_text(source.read_text())
            return {"runs": before.get("runs", 0) + 1}

        stamp = tmp_path / "stamps" / name
        return engine.Step(name, stamp, lambda: engine.digest(source), lambda stamp: target.exists(), run)

    return [copy("a"), copy("b")]


def runs(steps: list[engine.Step]) -> list[int]:
    """How often each step has run; they run here if they have to."""
    engine.run_steps(steps, engine.Console())
    return [engine.read_stamp(step.stamp)["runs"] for step in steps]


def test_only_what_changed_or_was_lost_is_done_again(steps: list[engine.Step], tmp_path: Path, capsys) -> None:
    assert runs(steps) == runs(steps) == [1, 1]
    said = capsys.readouterr().out
    assert "[1/2] a ..." in said and "[2/2] b: done in 0.0 s" in said
    (tmp_path / "a").write_text("other")
    assert runs(steps) == [2, 1]
    (tmp_path / "b.out").unlink()
    assert runs(steps) == [2, 2]


@pytest.mark.parametrize("text", ["", "[]"])
def test_a_broken_stamp_is_no_stamp(steps: list[engine.Step], text: str) -> None:
    runs(steps)
    steps[0].stamp.write_text(text)
    assert runs(steps) == [1, 1]


def test_a_step_that_fails_has_no_stamp(steps: list[engine.Step]) -> None:
    runs(steps)
    steps[0].inputs = lambda: "new"

    def full(before: dict) -> dict:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/some/file")

    steps[0].run = full
    with pytest.raises(OSError) as caught:
        engine.run_steps(steps, engine.Console())
    assert "the disk is full (while writing /some/file)" in str(engine.explain_os_error(caught.value))
    assert not steps[0].stamp.exists() and not steps[0].done()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("Temporary failure in name resolution\nERROR: No matching distribution found for x", "no network"),
        ("error: externally-managed-environment", "the system's own Python"),
        ("something else\nlast words", "pip failed. Its last lines:\n    something else\n    last words"),
    ],
)
def test_failures_are_sentences(output: str, words: str) -> None:
    error = engine.failure_of(output, "pip failed")
    assert words in error.message and error.fix


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


def test_a_second_set_up_waits_until_the_last_child_of_the_first_has_ended(tmp_path: Path) -> None:
    script = f"echo started; until test -e {tmp_path}/go; do sleep 0.05; done; touch {tmp_path}/ended"
    body = f"""
    import pathlib, setup_engine, setup_steps
    context = setup_steps.Context(pathlib.Path({str(tmp_path)!r}))
    def run(before):
        print("ended before:", pathlib.Path("{tmp_path}/ended").exists(), flush=True)
        context.child(["sh", "-c", {script!r}], on_line=lambda line: print(line, flush=True))
        return {{}}
    step = setup_engine.Step("One", context.stamp("one"), lambda: "", lambda stamp: True, run)
    setup_steps.all_steps = lambda context: [step]
    print("ran", setup_steps.set_up(context))
    """
    first = start(tmp_path, body)
    assert first.stdout is not None
    assert [first.stdout.readline() for _ in range(3)] == ["[1/1] One ...\n", "ended before: False\n", "started\n"]
    first.kill()  # the set-up alone; its child goes on
    second = start(tmp_path, body)
    assert second.stdout is not None and "Waiting for it to end" in second.stdout.readline()
    (tmp_path / "go").touch()
    assert "ended before: True" in second.communicate(timeout=300)[0]
    third = start(tmp_path, body)
    assert third.communicate(timeout=300)[0] == "ran 0\n"


def test_an_interrupt_ends_the_child_first(tmp_path: Path) -> None:
    body = f"""
    import setup_engine as engine
    engine.stop_on_signals()
    try:
        engine.run_child(["sh", "-c", "echo $$; exec sleep 60"], on_line=lambda line: print(line, flush=True))
    except KeyboardInterrupt as stopped:
        print("stopped by", *stopped.args, "in {tmp_path.name}")
    """
    process = start(tmp_path, body)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=300)[0].startswith("stopped by 15")
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
