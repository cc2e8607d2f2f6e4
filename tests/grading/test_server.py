"""How the fork server's memory lies: what a fork costs depends on it."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

from oplab.grading.client import Server

HUGE = 2 << 20


def can_gather() -> bool:
    """Whether this system can put memory of ours into large pages when it is asked to (Linux from 6.1 on)."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return False
    block = mmap.mmap(-1, 4 * HUGE)
    block[:] = b"x" * len(block)
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    first = (start + HUGE - 1) // HUGE * HUGE
    return ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(HUGE), 25) == 0


def large_pages(server: Server) -> int:
    """Bytes of the server's memory in large pages."""
    rollup = Path(f"/proc/{server._process.pid}/smaps_rollup")
    if not rollup.is_file():
        return 0
    return 1024 * next(int(line.split()[1]) for line in rollup.read_text().splitlines() if line.startswith("AnonHuge"))


def test_a_server_for_many_jobs_gathers_its_memory_in_large_pages():
    with Server() as few, Server(many=True) as many:
        few.start()
        many.start()
        assert large_pages(many) > large_pages(few) + 40 * HUGE or not can_gather()
