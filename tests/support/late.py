"""A pytest plugin that makes the test process late, as on a machine that gives it no processor: it sleeps after it has started a process or
a thread. A test that fails then needs luck. ``python -m pytest -p tests.support.late -n 5 tests/classes``; the processes under test
run as ever.
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
_init, _start = subprocess.Popen.__init__, threading.Thread.start


def _started(self: subprocess.Popen, *given, **options) -> None:
    _init(self, *given, **options)
    program = self.args if isinstance(self.args, str | bytes | os.PathLike) else self.args[0]
    if os.getpid() == _here and Path(os.fsdecode(program)).name not in QUICK:
        time.sleep(DELAY)


def _begun(self: threading.Thread) -> None:
    _start(self)
    if os.getpid() == _here and threading.current_thread() is threading.main_thread():
        time.sleep(DELAY)


subprocess.Popen.__init__ = _started  # type: ignore[method-assign]
threading.Thread.start = _begun  # type: ignore[method-assign]
