"""Processes that a check starts and waits for."""

from __future__ import annotations

import contextlib
import os
import signal
import time


def wait_for(child: int) -> int:
    """Wait for a fork. Where something has killed it from outside, this worker ends with it: see :func:`share_fate`.

    Returns:
        how it ended, as ``subprocess`` has it: the exit code, or -11 for SIGSEGV.
    """
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    share_fate(code)
    return code


def alarm_when_stuck(child: int, still: float = 3.0) -> None:
    """Wait until a fork ends, or is stuck because no thread of it can run: then it gets SIGALRM. Call :func:`wait_for` next.

    A thread that a busy machine keeps waiting can run, and one that sleeps wakes up: both are told from threads that wait for each
    other. One that waits for Python's own lock wakes up, too, unless ``sys.setswitchinterval`` is long. Returns at once where there
    is no ``/proc``.

    Args:
        child: its process id.
        still: seconds in which no thread can run, and none has.
    """
    before, since = _turns(child), time.monotonic()
    if before is None:
        return
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        now = _turns(child) or {}
        if now != before or "running" in now:
            before, since = now, time.monotonic()
        elif time.monotonic() - since >= still:
            os.kill(child, signal.SIGALRM)
            return
        time.sleep(0.02)


def _turns(pid: int) -> dict[str, bytes] | None:
    """How often each thread of a process has been given a processor; ``running`` is among them if one can run. None without ``/proc``."""
    found: dict[str, bytes] = {}
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return None
    for thread in threads:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/status", "rb") as stream:
            for line in stream:
                if line.startswith(b"State:") and b"S" not in line[6:9]:
                    found["running"] = line
                elif b"voluntary_ctxt_switches" in line:
                    found[thread] = found.get(thread, b"") + line
    return found


def share_fate(code: int) -> None:
    """End this worker where a process that it waited for was killed from outside: the server runs the job again then.

    A process that has used up its processor time ends with SIGXCPU.

    Args:
        code: how the process ended, as ``subprocess`` has it: -9 for SIGKILL.
    """
    if code == -signal.SIGKILL:
        os.kill(os.getpid(), signal.SIGKILL)
