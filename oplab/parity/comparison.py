"""``parity(model, inputs)``: one model in several backends, each output compared with that of the first backend.

>>> report = parity("model.onnx", {"x": x}, module=model)
>>> print(report)          # a table: dtype, shape, largest errors, and a verdict with its reason
>>> report.expect()        # raises where they do not agree
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oplab.errors import OplabError, first_line
from oplab.onnxtools.inputs import checked_inputs, input_specs
from oplab.parity import backends as running
from oplab.parity.arrays import TOLERANCE, describe, difference, max_ulp
from oplab.parity.backends import ALL, NAMES, ModelUnderTest, Unavailable
from oplab.parity.report import Agreement, BackendOutput, Report
from oplab.toolchain.library import check_library

WHY_NOT_EXACT = "sums are rounded in another order"
# Each other dtype is exact: an integer that is off by one is a wrong index, and a bool has nothing in between.
EXACT = (0.0, 0.0)


def parity(
    model: Any,
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    backends: Sequence[str] = NAMES,
    *,
    module: Any = None,
    tolerances: Mapping[str, tuple[float, float]] | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    reference: Sequence[type] | None = None,
    times: bool = False,
) -> Report:
    """Run one model in several backends and compare every output with that of the first backend that runs.

    Args:
        model: a path, serialized bytes, a ModelProto, or what ``torch.onnx.export`` returns.
        inputs: an array or tensor for each input of the model by name; or a list of such dicts, the cases.
        backends: their names, the base first.
            ``eager``: ``module`` as it is. ``exported``: the ExportedProgram inside an ONNXProgram, or ``module`` through
            ``torch.export`` for the shapes at hand. ``reference``: ``onnx.reference`` with
            :data:`oplab.ops.reference.OPERATORS`. ``ort``: ``oplab.session``. ``host``: the C++ program. ``openvino`` and
            ``ncnn``: these engines on the CPU, which run only where they are named.
        module: the PyTorch module or function that the model was exported from. Inputs are passed by name if the module has
            parameters of these names, else in the model's order; a module in training mode is run in eval mode.
        tolerances: ``{"float32": (rtol, atol)}``, by dtype or by the name of an output; an element agrees when
            ``|got - base| <= atol + rtol * |base|``. The defaults are those of :data:`oplab.parity.arrays.TOLERANCE`; integers and
            bools are exact.
        libraries: custom-op libraries for ``ort`` and ``host``, as in ``oplab.session``.
        reference: further ``OpRun`` classes; they come before the course's.
        times: measure the median of some runs for each backend.

    Returns:
        The report. A backend that cannot be used is a row with its reason; a case in which it raises is a row that failed.

    Raises:
        OplabError: the call is wrong: no model, an unknown backend, or inputs that do not fit the model.
    """
    _known(backends, tolerances)
    tested = ModelUnderTest(model, module, _existing(libraries), tuple(reference or ()), times)
    for name in tolerances or {}:
        if name not in tested.outputs and name not in _DTYPES:
            raise OplabError(
                f"There is a tolerance for {name!r}, which is neither a dtype nor an output of the model.",
                f"Its outputs are: {', '.join(tested.outputs)}.",
            )
    cases = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    if not cases:
        raise OplabError("There are no inputs: the list is empty.", "Give one dict of arrays, or several.")
    wanted = input_specs(tested.proto)
    feeds = [
        checked_inputs(wanted, case, f" of case {number}" if len(cases) > 1 else "")
        for number, case in enumerate(cases)
    ]
    ran = {name: _run(name, tested, feeds) for name in backends}
    base = _base(ran)
    rows: list[BackendOutput] = []
    for name, cases_ran in ran.items():
        for number, one in enumerate(cases_ran):
            if isinstance(one, BackendOutput):
                rows.append(one)
                continue
            against = base if base and _has(ran[base], number) else next(n for n in ran if _has(ran[n], number))
            expected = None if against == name else ran[against][number]
            assert not isinstance(expected, BackendOutput)
            rows += _rows(name, number, tested, one, expected and expected.outputs, tolerances or {})
    return Report(tuple(rows), base, len(feeds))


Ran = list[running.RunResult | BackendOutput]  # for each case its outputs or a row that says why there are none


def _has(ran: Ran, case: int) -> bool:
    return case < len(ran) and isinstance(ran[case], running.RunResult)


def _base(ran: Mapping[str, Ran]) -> str | None:
    """The first backend that has outputs for all cases, or else for some."""
    for enough in (all, any):
        for name, results in ran.items():
            if enough(isinstance(one, running.RunResult) for one in results):
                return name
    return None


def _known(backends: Sequence[str], tolerances: Mapping[str, tuple[float, float]] | None) -> None:
    if isinstance(backends, str):
        raise OplabError(f"backends is the text {backends!r}.", f'Give a list: ["{backends}", …].')
    for name in backends:
        if name not in ALL:
            raise OplabError(f"There is no backend {name}.", f"It can be {', '.join(ALL)}.")
    if len(set(backends)) < len(backends) or not backends:
        raise OplabError("Name each backend once, and at least one.", f"They are {', '.join(ALL)}.")
    for name, pair in (tolerances or {}).items():
        right = isinstance(pair, tuple | list) and len(pair) == 2
        if not right or not all(isinstance(value, int | float) and value >= 0 for value in pair):
            raise OplabError(
                f"The tolerance for {name} is {pair!r}.", "It is a pair of numbers that are not negative: (rtol, atol)."
            )


_DTYPES = frozenset({*TOLERANCE, *running.HOST_DTYPES, "complex64", "complex128"})


def _existing(libraries: Sequence[str | os.PathLike[str]]) -> tuple[Path, ...]:
    for library in libraries:
        if not Path(library).is_file():
            raise OplabError(f"There is no library {library}.", "Compile it first, or correct the path.")
        check_library(Path(library))  # the host program would load it as it is
    return tuple(Path(library) for library in libraries)


def _run(name: str, tested: ModelUnderTest, feeds: list[dict[str, np.ndarray]]) -> Ran:
    """What a backend gives for each case; one row if it cannot be used, or fails in the same way in every case."""
    ran: Ran = []
    try:
        run = running.ready(name, tested)
        for number, feed in enumerate(feeds):
            ran.append(_one(name, number, tested, run, feed))
    except Unavailable as error:
        return [_no_output(name, None, "not available", str(error))]
    except Exception as error:  # a backend may raise anything: that is a finding, not a failure of the comparison
        return [_failed(name, None, error)]
    if len({one.reason if isinstance(one, BackendOutput) else number for number, one in enumerate(ran)}) == 1:
        return ran[:1]
    return ran


def _one(
    name: str, case: int, tested: ModelUnderTest, run: running.Runner, feed: dict[str, np.ndarray]
) -> running.RunResult | BackendOutput:
    try:
        one = run(feed)
    except Unavailable:
        raise
    except Exception as error:
        return _failed(name, case, error)
    if len(one.outputs) != len(tested.outputs):
        outputs = f"{len(one.outputs)} output{'' if len(one.outputs) == 1 else 's'}"
        return _no_output(name, case, "failed", f"it gives {outputs}, and the model has {len(tested.outputs)}")
    return one


def _failed(name: str, case: int | None, error: Exception) -> BackendOutput:
    kind = "" if isinstance(error, RuntimeError | OplabError) else f"{type(error).__name__}: "
    where = "".join(
        f"{note}: " for note in getattr(error, "__notes__", ())
    )  # the node, where the backend does not name it
    return _no_output(name, case, "failed", f"{where}{kind}{first_line(error)}")


def _no_output(name: str, case: int | None, verdict: Agreement, reason: str) -> BackendOutput:
    agrees = False if verdict == "failed" else None
    return BackendOutput(name, "", case, None, None, None, None, None, agrees, verdict, reason)


def _rows(
    name: str,
    case: int,
    tested: ModelUnderTest,
    ran: running.RunResult,
    base: list[np.ndarray] | None,
    tolerances: Mapping[str, tuple[float, float]],
) -> list[BackendOutput]:
    rows = []
    for number, (output, got) in enumerate(zip(tested.outputs, ran.outputs, strict=True)):
        milliseconds = ran.milliseconds if number == 0 else None  # a run is one run, however many outputs it has
        dtype, shape = str(got.dtype), tuple(got.shape)
        if base is None:
            verdict, reason, errors, agrees = "base", "the first that ran", (None,) * 3, None
        else:
            pair = tolerances.get(output, tolerances.get(dtype, TOLERANCE.get(dtype, EXACT)))
            verdict, reason, errors = compared(base[number], got, *pair)
            agrees = verdict != "differs"
        rows.append(BackendOutput(name, output, case, dtype, shape, *errors, agrees, verdict, reason, milliseconds))
    return rows


Errors = tuple[float | None, float | None, float | None]


def compared(expected: np.ndarray, got: np.ndarray, rtol: float, atol: float) -> tuple[Agreement, str, Errors]:
    """Compare an array with the expected one.

    Dtypes and shapes have to be equal; NaN and infinities have to be in the same places, infinities with the same sign.

    Args:
        expected, got: arrays of any dtype and shape.
        rtol, atol: an element agrees when ``|got - expected| <= atol + rtol * |expected|``.

    Returns:
        The verdict, its reason in one line, and the largest absolute, relative and ULP error.
    """
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return "differs", f"it is {describe(got)}, and the base is {describe(expected)}", (None, None, None)
    if got.dtype.kind not in "biufc":
        same = got.tobytes() == expected.tobytes() if not got.dtype.hasobject else bool(np.array_equal(got, expected))
        return ("equal", "the same", (None,) * 3) if same else ("differs", "the elements differ", (None,) * 3)
    found = difference(expected, got, rtol, atol)
    ulp = max_ulp(expected, got) if got.dtype.kind == "f" else None
    errors = (found.max_abs, None if math.isnan(found.max_rel) else found.max_rel, ulp)
    if found.bad:
        index = found.first or ()
        where = f" at {list(index)}" if index else ""
        values = f"{_value(got[index])} instead of {_value(expected[index])}"
        allowed = f"{atol:.0e} + {rtol:.0e} of the value is allowed" if rtol or atol else f"{got.dtype} has to be exact"
        return "differs", f"{found.bad} of {found.total} elements differ, first{where}: {values}; {allowed}", errors
    if found.max_abs == 0:
        bits = expected.tobytes() == got.tobytes()
        return "equal", "the same bits" if bits else "the same values", errors
    why = WHY_NOT_EXACT if got.dtype.kind in "fc" else "asked for"
    return "close", f"{got.dtype} within {atol:.0e} + {rtol:.0e} of the value ({why})", errors


def _value(value: Any) -> str:
    if np.issubdtype(np.asarray(value).dtype, np.floating):
        return f"{float(value):.7g}"
    return str(value.item())
