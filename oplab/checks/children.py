"""Processes that a check starts and waits for."""

from __future__ import annotations

import os
import signal


def wait_for(child: int) -> int:
    """Wait for a fork. Where something has killed it from outside, this worker ends with it: see :func:`share_fate`.

    Returns:
        how it ended, as ``subprocess`` has it: the exit code, or -11 for SIGSEGV.
    """
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    share_fate(code)
    return code


def share_fate(code: int) -> None:
    """End this worker where a process that it waited for was killed from outside: the server runs the job again then.

    A process that has used up its processor time ends with SIGXCPU.

    Args:
        code: how the process ended, as ``subprocess`` has it: -9 for SIGKILL.
    """
    if code == -signal.SIGKILL:
        os.kill(os.getpid(), signal.SIGKILL)
