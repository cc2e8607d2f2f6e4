"""Forks of a process that runs tests."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable

from oplab.grading import processes


def fork(work: Callable[[], int | None]) -> int:
    """Start ``work`` in a fork of this process. It never returns to the test, and it does not outlive this process.

    A fork that came back would run the rest of the tests a second time. One that is left holds the pipe through which pytest-xdist
    learns that a worker has ended: the whole run would wait for it.

    Args:
        work: called without arguments; what it returns is the exit code, and None is 0. After an exception it is 1.

    Returns:
        its process id, for the caller to wait for.
    """
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            processes.die_with_parent(parent)
            # A test that has called `main` has left other handlers.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            code = work() or 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child
