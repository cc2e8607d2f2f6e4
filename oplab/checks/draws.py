"""The inputs of a check: collect and judge draw the same ones from one seed, and a digest of each draw proves it."""

from __future__ import annotations

import functools
import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

DIGEST = 8  # bytes
PLAIN_DTYPES = frozenset("?bBhHiIlLqQefdFD")  # NumPy's characters of bools, integers, floats and complex numbers


class InputsDiffer(Exception):
    """The two halves of a check made different inputs from one seed: a fault of the check, whatever the verdict was."""


class Draws(np.random.Generator):
    """A generator that keeps a digest of what it has given out, so that two of them can be compared draw by draw.

    Attributes:
        digests: ``DIGEST`` bytes for each draw; they cover this draw and all before it: the method, the type, shape and values.
    """

    def __init__(self, bits: np.random.BitGenerator):
        super().__init__(bits)
        self.digests = bytearray()

    def note(self, name: str, value: Any) -> None:
        """Add an entry for an input that this generator did not draw: torch's generator made it, or it was computed.

        Draws are noted by themselves.
        """
        array = np.asarray(value)
        plain = array.dtype.char in PLAIN_DTYPES
        digest = hashlib.blake2b(digest_size=DIGEST, key=bytes(self.digests[-DIGEST:]))
        digest.update(f"{name} {array.dtype.str if plain else type(value)} {array.shape}\n".encode())
        digest.update(array.tobytes() if plain else repr(value).encode())
        self.digests += digest.digest()


def _noted(name: str) -> Callable[..., Any]:
    plain = getattr(np.random.Generator, name)

    @functools.wraps(plain)
    def draw(self: Draws, *args: Any, **kwargs: Any) -> Any:
        made = plain(self, *args, **kwargs)
        self.note(name, args[0] if made is None else made)  # shuffle returns nothing
        return made

    return draw


for _name in dir(np.random.Generator):
    if not _name.startswith("_") and _name not in ("bit_generator", "spawn"):
        setattr(Draws, _name, _noted(_name))


def rng_for(seed: int, id: str) -> Draws:
    """The generator of one exercise's inputs: both halves make the same inputs from the same seed."""
    return Draws(np.random.PCG64([seed, zlib.crc32(id.encode())]))
