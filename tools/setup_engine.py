"""The engine of the set-up: steps with stamps, one set-up at a time, progress, and failures as sentences.

Standard library only: it runs before anything is installed. ``setup_steps`` holds the steps themselves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # nothing is installed yet
from oplab import files
from oplab.errors import OplabError

GIB = 1 << 30
AGAIN = "Run the same command again: it goes on where it stopped."


class SetupError(OplabError):
    """What is missing, and the command or sentence that fixes it."""


def explain_os_error(error: OSError, what: str = "") -> SetupError:
    """An OSError as a sentence; the disk being full and the folder being read-only are the ones that users meet."""
    where = what or (str(error.filename) if error.filename else "the course's folder")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(
            f"the disk is full (while writing {where}).",
            "free some space (`df -h .` shows how much there is), then run the same command again.",
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return SetupError(
            f"{where} cannot be written: {error.strerror}.",
            "copy the course to a folder of your own, and run the same command there.",
        )
    return SetupError(f"{where}: {error.strerror or error}.", "run the same command again.")


def digest(*parts: object) -> str:
    """A SHA-256 over texts, bytes and files, in hexadecimal. A Path counts with its content, or as missing."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            try:
                data = part.read_bytes()
            except FileNotFoundError:
                data = b"\0missing"
        else:
            data = part if isinstance(part, bytes) else str(part).encode()
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def read_stamp(path: Path) -> dict[str, Any]:
    """The stamp of a finished step; an empty dict when there is none or it is unreadable."""
    try:
        stamp = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(path: Path, facts: Mapping[str, Any]) -> None:
    """Writes the stamp of a finished step, and its folder where that is missing; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, json.dumps(facts, indent=1, sort_keys=True) + "\n")


def clock(seconds: float) -> str:
    """Seconds for a reader: ``4.2 s``, ``2 min 5 s``."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


class Progress:
    """Shows how far a long step is: one line, rewritten on a terminal, else a new line every ``every`` seconds."""

    def __init__(self, stream: IO[str] | None = None, every: float = 10.0):
        self.stream = stream or sys.stdout
        self.every = every
        self.live = self.stream.isatty()
        self._text = ""
        self._shown = time.monotonic()
        self._dirty = False

    def update(self, text: str) -> None:
        """Shows a new text, if it is time for it."""
        now = time.monotonic()
        if text == self._text or (not self.live and now - self._shown < self.every):
            return
        self._text, self._shown = text, now
        if self.live:
            width = shutil.get_terminal_size().columns
            self.stream.write("\r\033[K" + f"      {text}"[: width - 1])
            self._dirty = True
        else:
            self.stream.write(f"      {text}\n")
        self.stream.flush()

    def clear(self) -> None:
        """Removes the line from a terminal."""
        if self._dirty:
            self.stream.write("\r\033[K")
            self.stream.flush()
            self._dirty = False


class Console:
    """The set-up's output: whole lines, each of which clears the line of progress first."""

    def __init__(self, stream: IO[str] | None = None):
        self.stream = stream or sys.stdout
        self.progress = Progress(self.stream)

    def say(self, text: str) -> None:
        """Prints a line."""
        self.progress.clear()
        self.stream.write(text + "\n")
        self.stream.flush()


@dataclasses.dataclass
class Finished:
    """A child process that has ended: its exit status and what it printed."""

    code: int
    output: str


def run_child(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    on_tick: Callable[[], None] | None = None,
    log: Path | None = None,
    keep_open: Sequence[int] = (),
) -> Finished:
    """Runs a command to its end, line by line; when this process is interrupted the child ends first.

    Args:
        command: the program and its arguments.
        env: its environment variables; this process's by default.
        cwd: its working folder; this process's by default.
        on_line: called with each line that the child prints (stdout and stderr together).
        on_tick: called about five times a second.
        log: a file that gets all lines.
        keep_open: file descriptors that the child inherits; the set-up's lock is one, so that it is held until
            the last child has ended, even if the set-up itself was killed.
    """
    lines: queue.Queue[str | None] = queue.Queue()
    kept: list[str] = []
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(log, "a", encoding="utf-8")) if log else None
        child = subprocess.Popen(
            list(command),
            env=dict(env) if env is not None else None,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=tuple(keep_open),
        )
        assert child.stdout is not None
        pipe = child.stdout

        def read() -> None:
            for line in pipe:
                lines.put(line.rstrip("\n"))
            lines.put(None)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            while True:
                try:
                    line = lines.get(timeout=0.2)
                except queue.Empty:
                    if on_tick:
                        on_tick()
                    continue
                if line is None:
                    break
                kept.append(line)
                if file:
                    file.write(line + "\n")
                if on_line:
                    on_line(line)
            return Finished(child.wait(), "\n".join(kept))
        except BaseException:
            child.terminate()
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            raise


@contextlib.contextmanager
def only_one(path: Path, console: Console) -> Iterator[int]:
    """Holds the set-up's lock; waits, and says so, while another set-up has it. Yields its descriptor."""

    def waiting(owner: str) -> None:
        console.say(f"Another set-up of this folder is running (process {owner}). Waiting for it to end ...")

    path.parent.mkdir(parents=True, exist_ok=True)
    with files.lock(path, waiting) as handle:
        yield handle


class Step:
    """One step of the set-up.

    A step is done when its stamp holds the digest of its present inputs and ``intact()`` agrees. ``run()`` may be
    killed at any moment: its stamp is removed before and written after, and a later ``run()`` repairs what was left.
    """

    name = ""

    def stamp(self) -> Path:
        """The file that holds the step's stamp."""
        raise NotImplementedError

    def inputs(self) -> str:
        """The digest of all that this step depends on."""
        raise NotImplementedError

    def intact(self, stamp: dict[str, Any]) -> bool:
        """A cheap look (milliseconds) at whether the step's products are still there."""
        return True

    def about(self) -> str:
        """What is printed after the step's name when it starts."""
        return ""

    def run(self) -> dict[str, Any]:
        """Does the work; returns facts that go into the stamp."""
        raise NotImplementedError

    def done(self) -> bool:
        """True when nothing has changed since the step ran."""
        stamp = read_stamp(self.stamp())
        return bool(stamp) and stamp.get("inputs") == self.inputs() and self.intact(stamp)


def run_steps(steps: Sequence[Step], console: Console) -> int:
    """Runs the steps that are not done, in order; returns how many.

    Raises:
        SetupError: a step failed; those after it are not run.
    """
    ran = 0
    for number, step in enumerate(steps, 1):
        if step.done():
            continue
        ran += 1
        head = f"[{number}/{len(steps)}] {step.name}"
        about = step.about()
        console.say(f"{head}: {about} ..." if about else f"{head} ...")
        start = time.monotonic()
        stamp = step.stamp()
        try:
            stamp.unlink(missing_ok=True)
            facts = step.run()
            write_stamp(stamp, {**facts, "inputs": step.inputs()})
        except OSError as error:
            raise explain_os_error(error) from error
        finally:
            console.progress.clear()
        console.say(f"{head}: done in {clock(time.monotonic() - start)}")
    return ran


class Stopped(BaseException):
    """A signal asked the set-up to end; ``number`` is the signal."""

    def __init__(self, number: int):
        self.number = number


def stop_on_signals() -> None:
    """SIGTERM and SIGHUP end the set-up like Ctrl-C does: children first, then one sentence."""

    def stop(number: int, frame: object) -> None:
        raise Stopped(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, stop)
