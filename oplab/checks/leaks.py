"""Memory that is never given back, counted by the C library: what malloc has given out, before and after many calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

_ROUNDS = 24


def lost_by(call: Callable[[], object], count: int, least: int = 16) -> int:
    """Bytes that each call keeps; 0 where in one of the rounds the memory in use does not grow, so that it is not the calls.

    Around sessions ONNX Runtime and Python take a few hundred bytes themselves in about every second round of ten. In all of 24 rounds
    they do not: such luck has the probability 2**-24. A right answer ends in the first quiet round. In about one round of a thousand they
    give back kilobytes, which would hide what the calls keep: such a round decides nothing.

    Args:
        call: what may keep memory.
        count: calls in a round.
        least: bytes that count as growth in each call; the smallest block that malloc gives has 24.
    """
    lost = None
    for _ in range(2):  # caches, the first state of what is static
        call()
    for _ in range(_ROUNDS):
        before = in_use() or 0
        for _ in range(count):
            call()
        grown = ((in_use() or 0) - before) // count
        if grown <= -least:
            continue
        if grown < least:
            return 0
        lost = grown if lost is None else min(lost, grown)
    return lost or 0


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
