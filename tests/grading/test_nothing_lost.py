"""kill -9 at 100 random moments: what a learner wrote stays whole, progress stays readable, and no process lives on."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from oplab.grading.results import STATES
from tests.support import environment
from tests.support.fixture_course import command

MOMENTS = {"check": 20, "isolated check": 8, "watch": 6, "reset": 58, "notebooks": 8}
EXERCISES = ("c01.passes", "c01.fails", "c01.forks")
# The kernel is left out: what is tested is how notebooks reach the disk.
NOTEBOOKS = """
from pathlib import Path
import notebooks
notebooks.ROOT = Path({root!r})
notebooks.execute = lambda notebook: notebook.metadata.update(oplab={{"outputs": notebooks.fingerprint(notebook)}})
notebooks.problems = lambda notebook: []
source = notebooks.ROOT / "notebooks" / "src" / "00_large.py"
print("ready", flush=True)
while True:
    notebooks.make(source)
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="survivors are found through /proc")


def test_there_are_a_hundred():
    assert sum(MOMENTS.values()) == 100


class Killer:
    """Starts commands, kills them with -9 and looks for what they left running."""

    def __init__(self):
        self.marks: list[str] = []

    def run(self, line: list[str], env: dict[str, str], after: float, ready: bytes = b"") -> bool:
        """Kill after so many seconds, counted from the output ``ready`` where it is given. Whether it was still running."""
        self.marks.append(uuid.uuid4().hex)
        running = subprocess.Popen(
            line,
            env={**env, "OPLAB_TEST_MARK": self.marks[-1]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if ready else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if ready:
            while (text := running.stdout.readline()) and ready not in text:
                pass
        time.sleep(after)
        alive = running.poll() is None
        running.send_signal(signal.SIGKILL)
        running.wait()
        if running.stdout:
            running.stdout.close()
        return alive

    def survivors(self, seconds: float = 120) -> list[int]:
        """Processes of killed commands that still live: their servers end when they see that the command is gone."""
        deadline, wanted = time.monotonic() + seconds, [mark.encode() for mark in self.marks]
        while True:
            found = []
            for entry in Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and any(mark in (entry / "environ").read_bytes() for mark in wanted):
                        found.append(int(entry.name))
                except OSError:
                    continue
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.05)


@pytest.fixture
def killer():
    killer = Killer()
    yield killer
    for pid in killer.survivors(0):
        os.kill(pid, signal.SIGKILL)


def moments(kind: str, longest: float) -> list[float]:
    """Seconds, the same on each run but for ``longest``, which the speed of the machine decides."""
    chance = random.Random(f"nothing lost: {kind}")
    return [chance.uniform(0, longest) for _ in range(MOMENTS[kind])]


def seconds(line: list[str], env: dict[str, str]) -> float:
    """How long a command takes that is not killed."""
    started = time.monotonic()
    subprocess.run(line, env=env, capture_output=True, timeout=300)
    return time.monotonic() - started


def files(course: Path) -> dict[str, bytes]:
    """The learner's files; a name with a leading dot is a draft that a killed command left."""
    found = (path for path in (course / "exercises").rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(course).as_posix(): path.read_bytes() for path in found}


def progress(course: Path) -> dict:
    file = course / "build" / "progress.json"
    return json.loads(file.read_text())["exercises"] if file.exists() else {}


@pytest.mark.parametrize(("kind", "options"), [("check", []), ("isolated check", ["--isolate"])])
def test_check(kind, options, course, killer):
    line, env = command(course, "check", *EXERCISES, *options)
    mine, killed = files(course), 0
    longest = seconds(line, env)
    (course / "build" / "progress.json").write_text('{"version": 1, "exercises": {}}')
    for part in moments(kind, 1):
        after = part * longest
        if killer.run(line, env, after):
            killed += 1
        else:
            longest = max(after, longest / 2)  # the machine has become quicker since it was measured
        assert files(course) == mine
        for entry in progress(course).values():
            assert entry["status"] in STATES
    assert killed > MOMENTS[kind] / 4, "most commands had ended before they were killed: this proves nothing"
    assert killer.survivors() == []


def test_watch(course, killer):
    line, env = command(course, "watch")
    mine = files(course)
    for number, after in enumerate(moments("watch", 2.5)):
        (course / "exercises" / "c01_cases.py").write_bytes(mine["exercises/c01_cases.py"] + b"\n" * number)
        saved = files(course)
        assert killer.run(line, env, after)
        assert files(course) == saved
        progress(course)
    assert killer.survivors() == []


def test_reset(course, killer):
    line, env = command(course, "reset", "c01")
    file, name = course / "exercises" / "c01_cases.py", "exercises/c01_cases.py"
    mine = files(course)
    others = {other: text for other, text in mine.items() if "/c01_" not in other}
    longest = 2 * seconds(line, env)
    stub = file.read_bytes()
    assert stub != mine[name]
    seen = set()
    for number, part in enumerate(moments("reset", 1)):
        if number % 15 == 14 and True not in seen:
            longest *= 2  # the machine has become slower since it was measured
        after = part * longest
        old = mine[name] + f"# {number}\n".encode()
        file.write_bytes(old)
        killer.run(line, env, after)
        now = file.read_bytes()
        assert now in (old, stub), f"half a file after {after:.3f} s"
        seen.add(now == stub)
        if now == stub:
            backups = [path.read_bytes() for path in (course / "build" / "backup").rglob("c01_cases*.py")]
            assert old in backups, f"no backup after {after:.3f} s"
        assert others.items() <= files(course).items()
        progress(course)
    assert seen == {True, False}, "every kill came too early or too late: this proves nothing"
    assert killer.survivors() == []


@pytest.mark.parametrize(("mine", "limit"), [("x = 1\n", 1000), ("x = 1\n" * 1000, 1000)])
def test_reset_on_a_full_disk(mine, limit, course):
    """A write that ends in its middle: of the stub in the first case, of the backup in the second."""
    line, env = command(course, "reset", "c01")
    file = course / "exercises" / "c01_cases.py"
    file.write_text(mine)
    ended = subprocess.run(
        line,
        env=env,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert file.read_text() == mine
    assert ended.returncode == 2 and "cannot be written: File too large" in ended.stderr, ended
    assert "Traceback" not in ended.stderr


def test_progress_on_a_full_disk(course):
    line, env = command(course, "check", "c01.passes")
    file = course / "build" / "progress.json"
    before = '{"version": 1, "exercises": {}}\n'
    file.write_text(before)
    ended = subprocess.run(
        line,
        env=env,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)),
    )
    assert file.read_text() == before
    assert "Traceback" not in ended.stdout + ended.stderr, ended
    assert "cannot write to its temporary folder: File too large" in ended.stdout
    assert "Progress is not remembered: File too large" in ended.stdout + ended.stderr


def test_notebooks(tmp_path, killer):
    (tmp_path / "notebooks" / "src").mkdir(parents=True)
    source = tmp_path / "notebooks" / "src" / "00_large.py"
    source.write_text("".join(f"# %% [markdown]\n# Cell {number} {'x' * 2000}\n\n" for number in range(200)))
    target = tmp_path / "notebooks" / "00_large.ipynb"
    line = [sys.executable, "-c", NOTEBOOKS.format(root=str(tmp_path))]
    written, drafts = 0, 0
    for after in moments("notebooks", 0.6):
        assert killer.run(line, environment(), after, ready=b"ready")
        if target.exists():
            assert len(json.loads(target.read_text())["cells"]) == 200
            written += 1
        drafts += any(path.suffix == ".tmp" for path in target.parent.iterdir())
    assert written, "no notebook was written before a kill"
    assert killer.survivors() == []


def test_the_moments_can_find_something(tmp_path, killer):
    """A writer that is not atomic is caught at such moments: the test above would turn red."""
    file = tmp_path / "file"
    writer = f"""
text = "x" * (1 << 24)
print("ready", flush=True)
while True:
    open({str(file)!r}, "w").write(text)
"""
    file.write_text(
        "x" * (1 << 24)
    )  # a kill may come before the first write: a busy machine gives the writer its turn later
    chance = random.Random(1)
    for _ in range(100):
        killer.run([sys.executable, "-c", writer], dict(os.environ), chance.uniform(0.05, 0.15), ready=b"ready")
        if len(file.read_bytes()) != 1 << 24:
            return
    pytest.fail("each of 100 kills met a whole file")
