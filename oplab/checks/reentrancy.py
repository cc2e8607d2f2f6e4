"""Stops a kernel in the middle of an input and calls it from a second thread meanwhile: what two calls share is seen on any machine.

Threads that only run at the same time meet by chance, and on one processor hardly ever. Here the pages of an input cannot be read
until they are asked for. The first read of each ends in SIGSEGV, whose handler lets another thread make a whole call before it opens
the page. A kernel that holds a lock while it computes is right, too: the other call is then given up waiting for.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

_NOTHING, _ALL = 0, 3  # PROT_NONE, PROT_READ | PROT_WRITE
_OPEN = 2  # pages that can be read at a time: one load may reach over the end of a page
_STOPS = 20  # in one pass over all pages, about: a kernel that first checks its inputs has to be stopped in its later passes too
_FAULTS = 10_000  # some microseconds each; a kernel that reads here and there would have one for each value
_SIGINFO, _ADDRESS = 4, 16  # SA_SIGINFO, and where siginfo_t has si_addr: Linux, 64 bits
POSSIBLE = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")


class _Action(ctypes.Structure):
    """``struct sigaction`` of glibc on 64 bits."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Pages:
    """Copies of arrays on their own pages, of which at most ``_OPEN`` can be read at a time."""

    def __init__(self, arrays: Mapping[str, Any]):
        self.copies: dict[str, np.ndarray] = {}
        self.faults = 0
        self.open: list[int] = []
        self._ranges: list[range] = []
        self._held: list[mmap.mmap] = []
        for name, value in arrays.items():
            given = np.asarray(value)
            room = -(-given.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
            if room <= mmap.PAGESIZE:  # would only take turns with those that count
                self.copies[name] = given
                continue
            pages = mmap.mmap(-1, room)
            copy = np.ndarray(given.shape, given.dtype, buffer=pages, offset=room - given.nbytes)
            copy[...] = given
            start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
            self._ranges.append(range(start, start + room, mmap.PAGESIZE))
            self._held.append(pages)
            self.copies[name] = copy

    def protect(self, protection: int) -> None:
        for pages in self._ranges:
            _mprotect(pages.start, len(pages) * mmap.PAGESIZE, protection)

    def stops(self) -> bool:
        """Whether to interrupt at this fault: at each where the pages are few, otherwise at about 20 of a pass over all."""
        self.faults += 1
        return self.faults % max(1, sum(map(len, self._ranges)) // _STOPS) == 0

    def page(self, address: int) -> int | None:
        """The page of an address, or None: it is not one of these."""
        place = address - address % mmap.PAGESIZE
        return place if any(place in pages for pages in self._ranges) else None

    def turn(self, page: int) -> None:
        """Open a page, and close the one that was opened before the last."""
        _mprotect(page, mmap.PAGESIZE, _ALL)
        self.open.append(page)
        if len(self.open) > _OPEN:
            _mprotect(self.open.pop(0), mmap.PAGESIZE, _NOTHING)


@contextmanager
def interrupted(
    arrays: Mapping[str, Any], meanwhile: Callable[[], object], most: int = 100, patience: float = 1.0
) -> Iterator[dict[str, np.ndarray]]:
    """Copies of arrays; while the block reads them, ``meanwhile`` is called in a second thread, again and again.

    Where the system is not Linux on 64 bits, nothing is interrupted.

    Args:
        arrays: inputs by name; those that are larger than a page (4 KiB) are stopped at in their middle.
        meanwhile: a call, on these inputs or others. What it raises is lost; what it returns is its own affair.
        most: the number of interruptions, of which one pass over large inputs takes about 20. Then, and when ``meanwhile`` takes
            longer than ``patience`` seconds, the rest is read without any: a kernel may hold a lock.
    """
    pages = _Pages(arrays)
    if not POSSIBLE:
        yield pages.copies
        return
    asked, done, state = threading.Semaphore(0), threading.Semaphore(0), {"left": most, "end": False}

    def help_out() -> None:
        while asked.acquire() and not state["end"]:
            try:
                meanwhile()
            except Exception:
                pass
            done.release()

    def on_fault(number: int, information: int, context: int) -> None:
        page = pages.page(ctypes.c_size_t.from_address(information + _ADDRESS).value)
        if page is None:  # not ours: as if this handler were not there
            _sigaction(signal.SIGSEGV, ctypes.byref(before), None)
            return
        if pages.faults >= _FAULTS or state["left"] <= 0:
            pages.protect(_ALL)
            return
        if pages.stops() and threading.get_ident() != helper.ident:
            state["left"] -= 1
            asked.release()
            if not done.acquire(timeout=patience):
                state["left"] = 0
        pages.turn(page)

    helper = threading.Thread(target=help_out, daemon=True)
    helper.start()
    handler = _Handler(on_fault)
    before, action = _Action(), _Action(ctypes.cast(handler, ctypes.c_void_p).value, flags=_SIGINFO)
    pages.protect(_NOTHING)
    _sigaction(signal.SIGSEGV, ctypes.byref(action), ctypes.byref(before))
    try:
        yield pages.copies
    finally:
        pages.protect(_ALL)
        _sigaction(signal.SIGSEGV, ctypes.byref(before), None)
        state["end"] = True
        asked.release()
        helper.join(patience)


def on_faults(told: Callable[[int], None]) -> None:
    """Call ``told`` with the address of the next access to memory that is not allowed; then the process dies of it as usual.

    It stays in effect for the rest of the process. Where the system is not Linux on 64 bits, ``told`` is not called.
    """
    if not POSSIBLE:
        return

    def handle(number: int, information: int, context: int) -> None:
        _sigaction(signal.SIGSEGV, ctypes.byref(_Action()), None)
        told(ctypes.c_size_t.from_address(information + _ADDRESS).value)

    _kept.append(_Handler(handle))
    action = _Action(ctypes.cast(_kept[-1], ctypes.c_void_p).value, flags=_SIGINFO)
    _sigaction(signal.SIGSEGV, ctypes.byref(action), None)


_kept: list[Any] = []  # a handler that ctypes has freed must not be called
if POSSIBLE:
    _libc = ctypes.CDLL(None, use_errno=True)
    _sigaction = _libc.sigaction
    _mprotect = _libc.mprotect
    _mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
