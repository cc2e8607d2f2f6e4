"""What ``oplab parity`` is given on the command line, as :func:`oplab.parity.parity` takes it."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from oplab.errors import OplabError, first_line
from oplab.parity.arrays import TOLERANCE


def dimensions(words: Sequence[str]) -> dict[str, int]:
    """Sizes by the name of a dimension, from words like ``batch=4`` or ``batch=4,n=2``.

    Raises:
        OplabError: a word is not of this form.
    """
    sizes = {}
    for word in (part for entry in words for part in entry.split(",")):
        name, _, size = word.partition("=")
        if not name or not size.isascii() or not size.isdigit():
            raise OplabError(f"--dims takes a name and a size, for example --dims batch=4, not {word!r}.")
        sizes[name] = int(size)
    return sizes


def tolerances(rtol: float | None, atol: float | None) -> dict[str, tuple[float, float]]:
    """The tolerances of every float dtype, ``(rtol, atol)``; one that is None keeps its default.

    Raises:
        OplabError: a tolerance is NaN or infinite.
    """
    if any(value is not None and not math.isfinite(value) for value in (rtol, atol)):
        raise OplabError("A tolerance is a number, neither nan nor inf.", "For example --rtol 1e-4.")
    if rtol is None and atol is None:
        return {}
    return {
        dtype: (default[0] if rtol is None else rtol, default[1] if atol is None else atol)
        for dtype, default in TOLERANCE.items()
    }


def load_module(words: str) -> Callable[..., Any]:
    """The function or module named ``FILE.py:NAME``. A class is called without arguments.

    Raises:
        OplabError: the words are not of this form, the file cannot be loaded, or the name is not a function or a module.
    """
    name, colon, attribute = words.rpartition(":")
    file = Path(name)
    if not colon or not attribute.isidentifier():
        raise OplabError(f"--module takes FILE.py:NAME, not {words!r}.", "For example --module model.py:my_add.")
    if not file.is_file():
        raise OplabError(f"There is no file {file}.", "--module takes FILE.py:NAME.")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise OplabError(f"{file} is not a Python file.", "--module takes FILE.py:NAME.")
    loaded = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))  # as `python FILE.py` does
    try:
        spec.loader.exec_module(loaded)
    except Exception as error:
        raise OplabError(f"{file} cannot be loaded: {type(error).__name__}: {first_line(error)}.") from error
    finally:
        sys.path.pop(0)
    found = getattr(loaded, attribute, None)
    if isinstance(found, type):
        try:
            found = found()
        except Exception as error:
            raise OplabError(
                f"{attribute} cannot be made without arguments: {type(error).__name__}: {first_line(error)}.",
                "Name a function, or a module that is already constructed.",
            ) from None
    if not callable(found):
        there = "is not there" if found is None else f"is a {type(found).__name__}"
        raise OplabError(f"{attribute} {there} in {file}.", "Name a function, a torch.nn.Module, or its class.")
    return found
