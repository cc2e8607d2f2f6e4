"""Limits on a process that runs a learner's code, as far as the system offers them."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Iterable

from oplab.course.manifest import Limits

LINUX = sys.platform.startswith("linux")
PROCESSES = 64  # that one exercise may have at a time
SCRATCH = 512 << 20  # bytes in its folders: the evidence may have 256 MB of them
_FILES = 20_000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def adopt_orphans() -> None:
    """Make this process the parent of descendants that lose theirs, so that a double fork cannot escape. Linux only."""
    if LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends. Linux only; elsewhere the process group is all there is."""
    if LINUX:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)


def apply(limits: Limits, sanitized: bool = False) -> None:
    """Limit this process. ``sanitized``: AddressSanitizer reserves terabytes of address space, so memory is not limited."""
    cpu = max(1, int(limits.cpu))
    _limit(resource.RLIMIT_CPU, cpu, cpu + 2)
    _limit(resource.RLIMIT_NOFILE, limits.files, limits.files)
    _limit(resource.RLIMIT_CORE, 0, 0)
    _limit(resource.RLIMIT_FSIZE, 512 << 20, 512 << 20)
    if not sanitized:
        # RLIMIT_DATA counts private writable memory on Linux; RLIMIT_AS would also count the mapped libraries.
        kind = resource.RLIMIT_DATA if LINUX else resource.RLIMIT_AS
        bytes_ = _data_in_use() + (limits.memory_mb << 20)
        _limit(kind, bytes_, bytes_)


def descendants(pid: int) -> list[int]:
    """Process ids of all living children, grandchildren and so on of ``pid``, nearest first. Linux only, else empty."""
    if not LINUX:
        return []
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stream:
                    parts = stream.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if parts[0] != b"Z":
                children.setdefault(int(parts[1]), []).append(int(entry))
    found, waiting = [], [pid]
    while waiting:
        mine = children.get(waiting.pop(0), [])
        found.extend(mine)
        waiting.extend(mine)
    return found


def family(pid: int) -> tuple[int, int]:
    """How many descendants ``pid`` has, counted up to a little over PROCESSES, and the bytes of memory that they do not share with files.

    Cheaper than :func:`descendants`, which looks at every process of the machine. Linux only, else (0, 0).
    """
    if not LINUX:
        return 0, 0
    base = _memory(pid)  # what each fork has from the server is not its own
    count, used, waiting = 0, 0, _children(pid)
    while waiting and count <= PROCESSES:
        child = waiting.pop()
        count += 1
        used += max(0, _memory(child) - base)
        waiting.extend(_children(child))
    return count, used


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as stream:
                found.extend(map(int, stream.read().split()))
    except (OSError, ValueError):  # it has ended
        pass
    return found


def _memory(pid: int) -> int:
    total = 0
    try:
        with open(f"/proc/{pid}/status", "rb") as stream:
            for line in stream:
                if line.startswith((b"RssAnon:", b"RssShmem:")):
                    total += int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return total


def disk_use(folders: Iterable[str]) -> int:
    """Bytes on disk below these folders; more than SCRATCH also when there are too many files to count."""
    total, seen, waiting = 0, 0, list(folders)
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _FILES:
                        return SCRATCH + 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:  # removed meanwhile
            continue
    return total


def _prctl(option: int, value: int) -> None:
    try:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass


def _limit(kind: int, soft: int, hard: int) -> None:
    _, ceiling = resource.getrlimit(kind)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    try:
        resource.setrlimit(kind, (soft, hard))
    except (ValueError, OSError):  # macOS refuses some of them
        pass


def _data_in_use() -> int:
    try:
        with open("/proc/self/status", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("VmData:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 2 << 30
