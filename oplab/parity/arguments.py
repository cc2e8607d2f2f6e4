"""What ``oplab parity`` is given on the command line, as :func:`oplab.parity.parity` takes it."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from oplab.errors import OplabError, first_line
from oplab.parity.arrays import TOLERANCE
from oplab.toolchain.library import torch_refusal


def dimensions(words: Sequence[str]) -> dict[str, int]:
    """Sizes by the name of a dimension or its place, from words like ``batch=4``, ``batch=4,n=2`` or ``x.0=4``."""
    sizes = {}
    for word in (part for entry in words for part in entry.split(",")):
        name, _, size = word.rpartition("=")
        if not name or not size.isascii() or not size.isdigit():
            raise OplabError(f"--dims takes a name and a size, for example --dims batch=4, not {word!r}.")
        sizes[name] = int(size)
    return sizes


def tolerances(rtol: float | None, atol: float | None, words: Sequence[str] = ()) -> dict[str, tuple[float, float]]:
    """The tolerances ``(rtol, atol)`` of every float dtype, and those of ``words``.

    Args:
        rtol, atol: for all float dtypes; one that is None keeps its default.
        words: like ``y=1e-3``, an output or a dtype and its relative and absolute tolerance in one.
    """
    if any(value is not None and not math.isfinite(value) for value in (rtol, atol)):
        raise OplabError("A tolerance is a number, neither nan nor inf.", "For example --rtol 1e-4.")
    found = {}
    if rtol is not None or atol is not None:
        for dtype, default in TOLERANCE.items():
            found[dtype] = (default[0] if rtol is None else rtol, default[1] if atol is None else atol)
    for word in words:
        name, _, text = word.rpartition("=")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not name or not 0 <= value < math.inf:
            raise OplabError(f"--tolerance takes an output and a number, for example --tolerance y=1e-3, not {word!r}.")
        found[name] = (value, value)
    return found


def load_module(words: str) -> Callable[..., Any]:
    """The function or module named ``FILE.py:NAME``. A class is called without arguments."""
    file, attribute, found = _named(words, "--module", "model.py:my_add")
    if isinstance(found, type):
        try:
            found = found()
        except Exception as error:
            raise OplabError(
                f"{attribute} cannot be made without arguments: {type(error).__name__}: {first_line(error)}.",
                "Name a function, or a module that is already constructed.",
            ) from None
    if not callable(found):
        raise OplabError(f"{attribute} {_what(found)} in {file}.", "Name a function, a torch.nn.Module, or its class.")
    return found


def load_reference(words: str) -> type:
    """The class named ``FILE.py:CLASS``: an operator for ``onnx.reference``, a subclass of ``onnx.reference.op_run.OpRun``."""
    from onnx.reference.op_run import OpRun

    file, attribute, found = _named(words, "--reference", "op.py:MyAdd")
    if not isinstance(found, type) or not issubclass(found, OpRun):
        raise OplabError(
            f"{attribute} {_what(found)} in {file}, and no operator for onnx.reference.",
            "Name a subclass of onnx.reference.op_run.OpRun, with its op_domain.",
        )
    if not found.op_domain:
        raise OplabError(
            f"{attribute} in {file} has no domain, so it would take the place of ONNX's own {attribute}.",
            'Set the domain of your operator in the class: op_domain = "my_domain".',
        )
    return found


def names_function(words: str) -> bool:
    """Whether ``--inputs`` names a function, ``FILE.py:NAME``, and not a file of arrays."""
    return bool(re.fullmatch(r".+\.py:[^/]*", words))


def made_inputs(words: str, seed: int) -> list[dict[str, Any]]:
    """The cases that the function ``FILE.py:NAME`` makes: it returns a dict of arrays, or a list of such dicts.

    Args:
        words: the function. It is called with ``numpy.random.default_rng(seed)`` if it takes an argument.
        seed: of the generator.
    """
    import numpy as np

    _, attribute, found = _named(words, "--inputs", "op.py:cases")
    if not callable(found):
        raise OplabError(f"{words} {_what(found)}.", "Name a function that returns the inputs.")
    try:
        takes_generator = bool(inspect.signature(found).parameters)
        made = found(np.random.default_rng(seed)) if takes_generator else found()
    except Exception as error:
        raise OplabError(f"{words} raised {type(error).__name__}: {first_line(error)}.") from error
    cases = [made] if isinstance(made, Mapping) else made
    if not isinstance(cases, list | tuple) or not cases or not all(isinstance(case, Mapping) for case in cases):
        raise OplabError(
            f"{words} returns {'nothing' if made is None else f'a {type(made).__name__}'}, not inputs.",
            f'{attribute} returns a dict, for example {{"x": array}}, or a list of such dicts, the cases.',
        )
    return [dict(case) for case in cases]


def _named(words: str, option: str, example: str) -> tuple[Path, str, Any]:
    """The file, the name and what has that name in it, or None."""
    name, colon, attribute = words.rpartition(":")
    file = Path(name)
    if not colon or not attribute.isidentifier():
        raise OplabError(f"{option} takes FILE.py:NAME, not {words!r}.", f"For example {option} {example}.")
    if not file.is_file():
        raise OplabError(f"There is no file {file}.", f"{option} takes FILE.py:NAME.")
    return file, attribute, getattr(_loaded(file.resolve()), attribute, None)


@functools.cache  # several options may name one file, and an operator can be registered only once
def _loaded(file: Path) -> ModuleType:
    # Its own name, so that a neighbour that imports it gets this module; not that of a module that is there already.
    name = file.stem if file.stem not in sys.modules else f"given_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise OplabError(f"{file} is not a Python file.", "Its name ends with .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # onnxscript's @script and dataclasses look the module of a function up there
    sys.path.insert(0, str(file.parent))  # as `python FILE.py` does
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        if isinstance(error, OSError) and (refused := torch_refusal(error)):
            raise refused from None
        raise OplabError(f"{file} cannot be loaded: {type(error).__name__}: {first_line(error)}.") from error
    finally:
        sys.path.pop(0)
    return module


def _what(found: Any) -> str:
    return "is not there" if found is None else f"is a {'class' if isinstance(found, type) else type(found).__name__}"
