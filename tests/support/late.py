"""A pytest plugin that makes the test process late, as on a machine that gives it no processor: it sleeps after it has started a process or
a thread, and when it looks for something again and again, each of its looks comes late, too. A test that fails then needs luck.
``python -m pytest -p tests.support.late -n 5 tests/classes``; the processes under test run as ever.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

DELAY = 0.5  # seconds
QUICK = ("git", "uname", "ldd")  # started by the hundred, and the test waits for their end

_here = os.getpid()  # not in a fork: what it does may be what is tested
_init, _start, _sleep, _wait = subprocess.Popen.__init__, threading.Thread.start, time.sleep, threading.Event.wait


def _started(self: subprocess.Popen, *given, **options) -> None:
    _init(self, *given, **options)
    program = self.args if isinstance(self.args, str | bytes | os.PathLike) else self.args[0]
    if os.getpid() == _here and Path(os.fsdecode(program)).name not in QUICK:
        _sleep(DELAY)


def _begun(self: threading.Thread) -> None:
    _start(self)
    if os.getpid() == _here and threading.current_thread() is threading.main_thread():
        _sleep(DELAY)


def _slept(seconds: float) -> None:
    _sleep(max(seconds, DELAY) if seconds and os.getpid() == _here else seconds)


def _waited(self: threading.Event, timeout: float | None = None) -> bool:
    return _wait(self, timeout if timeout is None or os.getpid() != _here else max(timeout, DELAY))


subprocess.Popen.__init__ = _started  # type: ignore[method-assign]
threading.Thread.start = _begun  # type: ignore[method-assign]
time.sleep = _slept
threading.Event.wait = _waited  # type: ignore[method-assign]
