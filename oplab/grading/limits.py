"""Limits on a process that runs a learner's code, as far as the system offers them."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from collections.abc import Iterable

from oplab.course.manifest import Limits
from oplab.grading.processes import LINUX

SANITIZED = 2  # times the memory: what a sanitizer keeps of what was freed, and its notes
PROCESSES = 64  # that one exercise may have at a time
SCRATCH = 512 << 20  # bytes in its folders: the evidence may have 256 MB of them
_FILES = 20_000
_PATH = 3000  # characters of a path: what is deeper than 4096 could not be looked at


def apply(limits: Limits, sanitized: bool = False) -> None:
    """Limit this process.

    Args:
        limits: the exercise's; wall time and printed output are left to the supervisor.
        sanitized: AddressSanitizer reserves terabytes of address space: its memory is left to the supervisor.
    """
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


def deleted_files(pids: Iterable[int]) -> int:
    """Bytes of files without a name that these processes have open: :func:`disk_use` does not find them. Linux only, else 0."""
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    state = os.stat(f"/proc/{pid}/fd/{name}")
                    if stat.S_ISREG(state.st_mode) and not state.st_nlink:
                        found[state.st_dev, state.st_ino] = state.st_blocks * 512
    return sum(found.values())


def disk_use(folders: Iterable[os.PathLike[str]]) -> int:
    """Bytes on disk below these folders; more than SCRATCH also when there are too many or too deep files to count."""
    total, seen = 0, 0
    waiting = [os.fspath(folder) for folder in folders]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _FILES or len(entry.path) > _PATH:
                        return SCRATCH + 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:  # removed meanwhile
            continue
    return total


def _limit(kind: int, soft: int, hard: int) -> None:
    _, ceiling = resource.getrlimit(kind)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    try:
        resource.setrlimit(kind, (soft, hard))
    except (ValueError, OSError):  # macOS refuses some of them
        pass


def _data_in_use() -> int:
    """Bytes of private writable memory that this process has now."""
    try:
        with open("/proc/self/status", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("VmData:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return 2 << 30
