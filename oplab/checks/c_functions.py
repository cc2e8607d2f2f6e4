"""Calls of a learner's C functions, by their names in the compiled library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Literal

from oplab.checks.evidence import Collect
from oplab.parity.arrays import WrongAnswer

Type = Literal["pointer", "int64", "float", "int"]
_TYPES = {"pointer": ctypes.c_void_p, "int64": ctypes.c_int64, "float": ctypes.c_float, "int": ctypes.c_int}


def c_function(c: Collect, name: str, *arguments: Type, result: Type | None = "int") -> Callable[..., Any]:
    """The learner's function ``name``, which is called as C calls it: no types are checked, and nothing is converted.

    Args:
        c: has the compiled library.
        name: as it is written after ``extern "C"``.
        arguments: the type of each; a pointer is an address, or None for a null pointer.
        result: the type of what it returns; None for ``void``.

    Raises:
        WrongAnswer: the library has no such symbol.
    """
    try:
        function = getattr(ctypes.CDLL(str(c.library)), name)
    except AttributeError:
        raise WrongAnswer(
            f'The library has no symbol {name}: the function is missing, or is not extern "C", or is static.'
        ) from None
    function.argtypes = [_TYPES[kind] for kind in arguments]
    function.restype = None if result is None else _TYPES[result]
    return function
