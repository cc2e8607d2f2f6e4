"""``oplab parity``: a model, inputs from a file or random ones, and what each backend makes of them."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oplab.errors import OplabError
from oplab.onnxtools.inputs import input_specs, random_inputs
from oplab.onnxtools.npz import read_npz
from oplab.parity.arrays import TOLERANCE, describe
from oplab.parity.backends import NAMES, Job, first_line
from oplab.parity.report import Report, parity


@dataclass(frozen=True)
class Call:
    """The command line as it was given; ``backends`` and ``module`` are empty where they were left out."""

    model: Path
    inputs: Path | None
    dims: list[str]
    seed: int
    backends: str
    module: str
    libraries: list[Path]
    rtol: float | None
    atol: float | None
    times: bool
    json_file: Path | None


def run(call: Call) -> int:
    """Prints the report. Returns 0 where the backends agree and 1 where not.

    Raises:
        OplabError: the call is wrong.
    """
    backends = [name.strip() for name in call.backends.split(",")] if call.backends else list(NAMES)
    asked = [name for name in backends if name in ("eager", "exported")]
    if call.backends and asked and not call.module:
        raise OplabError(
            f"{' and '.join(asked)}: an .onnx file does not say which PyTorch module it was made from.",
            "Name it: --module FILE.py:NAME.",
        )
    out = sys.stderr if str(call.json_file) == "-" else sys.stdout
    wanted = input_specs(Job(call.model).proto)
    if call.inputs is None:
        inputs = random_inputs(wanted, call.seed, _dims(call.dims))
        made = ", ".join(f"{name} {describe(array)}" for name, array in inputs.items()) or "none"
        print(f"Inputs: random, --seed {call.seed}: {made}", file=out)
    elif call.dims:
        raise OplabError("--dims is for random inputs, and --inputs gives others.", "Leave one of them out.")
    else:
        inputs = read_npz(call.inputs)
    report = parity(
        call.model,
        inputs,
        backends,
        module=_module(call.module) if call.module else None,
        tolerances=_tolerances(call.rtol, call.atol),
        libraries=call.libraries,
        times=call.times,
    )
    print(report.text(), file=out)
    if call.json_file is not None:
        _write(report, call.json_file)
    return 0 if report.passed else 1


def _dims(words: list[str]) -> dict[str, int]:
    sizes = {}
    for word in (part for words_ in words for part in words_.split(",")):
        name, _, size = word.partition("=")
        if not name or not size.isascii() or not size.isdigit():
            raise OplabError(f"--dims takes a name and a size, for example --dims batch=4, not {word!r}.")
        sizes[name] = int(size)
    return sizes


def _tolerances(rtol: float | None, atol: float | None) -> dict[str, tuple[float, float]]:
    """What the options say, for every float dtype; the default where one of the two is left out."""
    if any(value is not None and not math.isfinite(value) for value in (rtol, atol)):
        raise OplabError("A tolerance is a number, neither nan nor inf.", "For example --rtol 1e-4.")
    if rtol is None and atol is None:
        return {}
    return {
        dtype: (default[0] if rtol is None else rtol, default[1] if atol is None else atol)
        for dtype, default in TOLERANCE.items()
    }


def _module(words: str) -> Any:
    """The function or module named FILE.py:NAME. A class of modules is called without arguments."""
    name, colon, attribute = words.rpartition(":")
    file = Path(name)
    if not colon or not attribute.isidentifier():
        raise OplabError(f"--module takes FILE.py:NAME, not {words!r}.", "For example --module model.py:my_add.")
    if not file.is_file():
        raise OplabError(f"There is no file {file}.", "--module takes FILE.py:NAME.")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise OplabError(f"{file} is no Python file.", "--module takes FILE.py:NAME.")
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
                "Name a function, or a module that is made already.",
            ) from None
    if not callable(found):
        there = "is not there" if found is None else f"is a {type(found).__name__}"
        raise OplabError(f"{attribute} {there} in {file}.", "Name a function, a torch.nn.Module, or its class.")
    return found


def _write(report: Report, file: Path) -> None:
    text = json.dumps(report.as_dict(), indent=1) + "\n"
    if str(file) == "-":
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OplabError(f"{file} cannot be written: {error.strerror}.", "Name a file in a folder of yours.") from None
