"""A process and its descendants: how they are found, counted and ended. Only Linux offers all of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

LINUX = sys.platform.startswith("linux")
_LOOKS = 10  # at a process whose threads end while they are looked at
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def adopt_orphans() -> None:
    """Make this process the parent of descendants that lose theirs, so that a double fork cannot escape. Linux only."""
    if LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends. Linux only; elsewhere only the process group is left to find it by.

    Args:
        parent: the parent's process id. Where the parent has ended already, this process exits.
    """
    if LINUX:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)


def outlive_parent() -> None:
    """Take :func:`die_with_parent` back."""
    if LINUX:
        _prctl(_PR_SET_PDEATHSIG, 0)


def children(pid: int) -> list[int]:
    """Process ids of the children of all threads of ``pid``; empty when it has ended, and where there is no ``/proc``."""
    for _ in range(_LOOKS):
        found, ended = _children(pid)
        if not ended:
            break
    return found


def _children(pid: int) -> tuple[list[int], bool]:
    """One look at each thread, and whether one has ended meanwhile. Its children are then those of another, perhaps seen before."""
    found: list[int] = []
    ended = False
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return [], False
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as stream:
                found.extend(map(int, stream.read().split()))
        except (OSError, ValueError):
            ended = True
    return found, ended


def descendants(pid: int) -> list[int]:
    """Process ids of all living children, grandchildren and so on of ``pid``, nearest first. Linux only, else empty."""
    if not LINUX:
        return []
    by_parent: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stream:
                    parts = stream.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if parts[0] != b"Z":
                by_parent.setdefault(int(parts[1]), []).append(int(entry))
    found, waiting = [], [pid]
    while waiting:
        mine = by_parent.get(waiting.pop(0), [])
        found.extend(mine)
        waiting.extend(mine)
    return found


def ancestors(pid: int) -> list[bytes]:
    """The command lines of ``pid`` and of its parents, up to the first process; empty when it has ended. Linux only."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        while pid > 0:
            with open(f"/proc/{pid}/cmdline", "rb") as stream:
                command = stream.read()
            with open(f"/proc/{pid}/stat", "rb") as stream:
                pid = int(stream.read().rpartition(b")")[2].split()[1])
            found.append(command)
        return found
    return []


def usage(pid: int, most: int) -> tuple[int, int]:
    """How many descendants ``pid`` has, and the bytes of memory that they do not share with files.

    Cheaper than :func:`descendants`, which looks at every process of the machine. Linux only, else (0, 0).

    Args:
        pid: a process whose forks share their first memory with it: that does not count.
        most: counting stops when there are more descendants than this.
    """
    if not LINUX:
        return 0, 0
    base = _memory(pid)
    count, used, waiting = 0, 0, children(pid)
    while waiting and count <= most:
        child = waiting.pop()
        count += 1
        used += max(0, _memory(child) - base)
        waiting.extend(children(child))
    return count, used


def kill(pid: int) -> None:
    """Send SIGKILL to ``pid``, which may have ended already."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def kill_descendants(worker: int | None = None) -> int:
    """Kill all descendants of this process, also those that have left the worker's process group.

    Args:
        worker: a child whose process group is killed too. The caller waits for it itself: it is not reaped here.

    Returns:
        how many descendants there were, without ``worker``.
    """
    ended: set[int] = set()
    for attempt in range(200):  # a process that forks meanwhile is found the next time
        family = [pid for pid in descendants(os.getpid()) if pid != worker]
        ended.update(family)
        if worker is not None and attempt == 0:
            with contextlib.suppress(OSError):
                os.killpg(worker, signal.SIGKILL)
        # One that took longer to end than the pause below would stay a zombie until the next job.
        if not family:
            _reap(worker)
            break
        for pid in family:  # stopped first, so that it cannot fork
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGSTOP)
        for pid in family:
            kill(pid)
        time.sleep(0.001)
        _reap(worker)
    return len(ended)


def _reap(worker: int | None) -> None:
    """Collect the children that have ended, all but ``worker``."""
    for pid in children(os.getpid()):
        if pid != worker:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def _memory(pid: int) -> int:
    """Bytes of anonymous and shared memory."""
    total = 0
    try:
        with open(f"/proc/{pid}/status", "rb") as stream:
            for line in stream:
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    total += int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return total


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
