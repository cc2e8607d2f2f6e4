"""Processes that a check starts and waits for."""

from __future__ import annotations

import os
import signal


def share_fate(code: int) -> None:
    """End this worker where a process that it waited for was killed from outside: the server runs the job again then.

    A process that has used up its processor time ends with SIGXCPU.

    Args:
        code: how the process ended, as ``subprocess`` has it: -9 for SIGKILL.
    """
    if code == -signal.SIGKILL:
        os.kill(os.getpid(), signal.SIGKILL)
