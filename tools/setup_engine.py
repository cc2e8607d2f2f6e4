"""The engine of the set-up: steps with stamps, progress, and failures as sentences. Standard library only: nothing is installed yet."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from oplab import files
from oplab.errors import OplabError

AGAIN = "Run the same command again: it continues where it stopped."
NETWORK = re.compile(
    r"name resolution|Name or service not known|nodename nor servname|dns error|failed to lookup|Could not resolve|"
    r"NewConnectionError|establish a new connection|Connection refused|Connection reset|unreachable|timed out|"
    r"TimeoutError|ProxyError|IncompleteRead|Cannot initiate the connection|Failed to fetch|client error",
    re.IGNORECASE,
)


class SetupError(OplabError):
    """What is missing, and the command or sentence that fixes it."""


def explain_os_error(error: OSError) -> SetupError:
    """An OSError as a sentence; a full disk and a read-only folder are the ones that users meet."""
    where = str(error.filename or "the course's folder")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SetupError(f"the disk is full (while writing {where}).", f"free some space. {AGAIN}")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return SetupError(
            f"{where} cannot be written: {error.strerror}.",
            "copy the course to a folder of your own, and run the same command there.",
        )
    return SetupError(f"{where}: {error.strerror or error}.", AGAIN)


def failure_of(output: str, what: str) -> SetupError:
    """The error for a failed program: known reasons in its output become a sentence, else ``what`` and its last lines."""
    if re.search(r"No space left on device|Disk quota exceeded|ENOSPC", output):
        return SetupError("the disk is full.", f"free some space (`df -h .` shows how much there is). {AGAIN}")
    if NETWORK.search(output):
        return SetupError(
            "the package index cannot be reached: there is no network, or a proxy is needed.",
            f"connect this machine (behind a proxy: set https_proxy). {AGAIN}",
        )
    if re.search(r"externally[- ]managed", output):
        return SetupError(
            "OPLAB_PYTHON is the system's own Python, which does not let pip install packages.",
            "unset OPLAB_PYTHON (then .venv is used), or set it to the Python of a virtual environment.",
        )
    if found := re.search(r"No matching distribution found for (\S+)", output):
        here = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
        # Without a list of versions, an index that was not reached looks the same.
        unsure = ", or the index cannot be reached" if "(from versions: none)" in output else ""
        return SetupError(
            f"the package index has no wheel of {found[1]} for {here}{unsure}.",
            "check the address of your index (TORCH_INDEX, pip's settings) and the systems in docs/setup.md.",
        )
    tail = "\n".join("    " + line for line in output.strip().splitlines()[-6:])
    return SetupError(f"{what}. Its last lines:\n{tail}", AGAIN)


def digest(*parts: object) -> str:
    """A SHA-256 over texts and files, in hexadecimal. A Path counts with its content, or as missing."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            data = part.read_bytes() if part.is_file() else b"\0missing"
        else:
            data = str(part).encode()
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def read_stamp(path: Path) -> dict[str, Any]:
    """The stamp of a finished step; an empty dict when there is none or it is unreadable."""
    try:
        stamp = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def clock(seconds: float) -> str:
    """Seconds for a reader: ``4.2 s``, ``2 min 5 s``."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60} s"


class Console:
    """The set-up's output: whole lines, and a line of progress: rewritten on a terminal, else printed every ``every`` seconds."""

    def __init__(self, every: float = 10.0):
        self.every, self.live = every, sys.stdout.isatty()
        self._shown, self._dirty = time.monotonic(), False

    def say(self, text: str) -> None:
        self.clear()
        print(text, flush=True)

    def progress(self, text: str) -> None:
        if self.live:
            width = shutil.get_terminal_size().columns
            print("\r\033[K" + f"      {text}"[: width - 1], end="", flush=True)
            self._dirty = True
        elif time.monotonic() - self._shown >= self.every:
            self._shown = time.monotonic()
            print(f"      {text}", flush=True)

    def clear(self) -> None:
        if self._dirty:
            print("\r\033[K", end="", flush=True)
            self._dirty = False


@dataclass
class Finished:
    """A child process that has ended: its exit status and what it printed."""

    code: int
    output: str


def run_child(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    on_line: Callable[[str], object] = lambda line: None,
    on_tick: Callable[[], object] = lambda: None,
    keep_open: Sequence[int] = (),
) -> Finished:
    """Runs a command to its end; when this process is interrupted, the child ends first.

    Args:
        on_line: called with each line that the child prints (stdout and stderr together).
        on_tick: called once a second while it prints nothing.
        keep_open: file descriptors that the child inherits, such as the set-up's lock: it is held until the last child has ended.
    """
    child = subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=keep_open,
    )
    assert child.stdout is not None
    lines, rest = [], b""
    try:
        while True:
            if not select.select([child.stdout], [], [], 1)[0]:
                on_tick()
                continue
            data = os.read(child.stdout.fileno(), 1 << 16)
            *whole, rest = (rest + data).split(b"\n") if data else (*([rest] if rest else []), b"")
            for line in whole:
                lines.append(line.decode(errors="replace"))
                on_line(lines[-1])
            if not data:
                return Finished(child.wait(), "\n".join(lines))
    except BaseException:
        child.terminate()
        try:
            child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise


@dataclass
class Step:
    """One step of the set-up: done when its stamp has the digest of its present inputs and ``intact`` agrees.

    ``run`` may be killed at any moment: the stamp is removed before and written after, and a later run repairs what was left.

    Attributes:
        stamp: the file that says that it is done.
        inputs: the digest of all that it depends on.
        intact: a cheap look at whether its products are there; gets the facts of the stamp.
        run: does the work; gets the facts of the last stamp and returns those of the next.
    """

    name: str
    stamp: Path
    inputs: Callable[[], str]
    intact: Callable[[dict[str, Any]], bool]
    run: Callable[[dict[str, Any]], dict[str, Any]]

    def done(self) -> bool:
        stamp = read_stamp(self.stamp)
        return bool(stamp) and stamp.get("inputs") == self.inputs() and self.intact(stamp)


def run_steps(steps: Sequence[Step], console: Console) -> int:
    """Runs the steps that are not done, in order, up to the first that raises SetupError; returns how many."""
    ran = 0
    for number, step in enumerate(steps, 1):
        if step.done():
            continue
        ran += 1
        head = f"[{number}/{len(steps)}] {step.name}"
        console.say(f"{head} ...")
        start = time.monotonic()
        before = read_stamp(step.stamp)
        step.stamp.unlink(missing_ok=True)
        facts = {**step.run(before), "inputs": step.inputs()}
        step.stamp.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(step.stamp, json.dumps(facts) + "\n")
        console.say(f"{head}: done in {clock(time.monotonic() - start)}")
    return ran


def stop_on_signals() -> None:
    """SIGTERM and SIGHUP end the set-up as Ctrl-C does: children first, then one sentence."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
            signal.signal(number, stop)
