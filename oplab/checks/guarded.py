"""Arrays between pages that no code may touch: a kernel that reads or writes outside of its input ends with SIGSEGV, at once."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

_PROT_NONE = 0


def guarded(array: Any, guard: Literal["behind", "before"] = "behind") -> np.ndarray:
    """A copy of an array whose data end directly before a page that cannot be read or written, or begin directly after one.

    The data of an empty array is such a page: reading its first element ends the process, too. The copy keeps its pages alive.

    Args:
        array: of any shape and any plain dtype; the copy is in C order.
        guard: the side with the page. On the other side there may be bytes of the same page that are zero.

    Raises:
        OSError: the system refuses to protect the pages.
    """
    given = np.asarray(array)
    page = mmap.PAGESIZE
    room = -(-given.nbytes // page) * page
    pages = mmap.mmap(-1, room + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for place in (start, start + page + room):
        if _protect(place, page):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = page if guard == "before" and given.nbytes else page + room - given.nbytes
    made = np.ndarray(given.shape, given.dtype, buffer=pages, offset=offset)
    made[...] = given
    return made


def guarded_feeds(feeds: Mapping[str, Any], guard: Literal["behind", "before"] = "behind") -> dict[str, np.ndarray]:
    """The inputs of a run by name, each of them :func:`guarded`."""
    return {name: guarded(value, guard) for name, value in feeds.items()}


def _protect(address: int, size: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), _PROT_NONE))
