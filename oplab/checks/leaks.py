"""Memory that is never given back, counted by the C library: what malloc has given out, before and after many calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

_ROUNDS = 6
_LEAST = 16  # bytes in each call: less than the smallest block that malloc gives


def lost_by(call: Callable[[], object], count: int) -> int:
    """Bytes that each call keeps; 0 where in one of the rounds the memory in use does not grow, so that it is not the calls.

    ONNX Runtime and Python take some more themselves now and then, but not in each of the rounds.
    """
    least = 0
    for _ in range(2):  # caches, the first state of what is static
        call()
    for turn in range(_ROUNDS):
        before = in_use() or 0
        for _ in range(count):
            call()
        grown = ((in_use() or 0) - before) // count
        if grown < _LEAST:
            return 0
        least = grown if turn == 0 else min(least, grown)
    return least


class _MallInfo(ctypes.Structure):  # struct mallinfo2 of glibc
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def in_use() -> int | None:
    """Bytes that malloc has given out; None where the C library does not tell."""
    if _mallinfo is None:
        return None
    found = _mallinfo()
    return int(found.uordblks + found.hblkhd)


_mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)  # once: each CDLL leaves garbage, which would be counted
if _mallinfo is not None:
    _mallinfo.restype = _MallInfo
