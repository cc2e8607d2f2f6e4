"""``parity(model, inputs)``: one model in several backends, each output compared with that of the first backend.

>>> report = parity("model.onnx", {"x": x}, module=model)
>>> print(report)          # a table: dtype, shape, largest errors, and a verdict with its reason
>>> report.expect()        # raises where they do not agree
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oplab.errors import OplabError, first_line
from oplab.onnxtools.inputs import checked_inputs, input_specs
from oplab.parity.arrays import TOLERANCE, describe, difference, max_ulp
from oplab.parity.backends import ALL, HOST_DTYPES, NAMES, ready
from oplab.parity.known import known_faults
from oplab.parity.modules import TRAINING, in_training
from oplab.parity.report import Agreement, BackendOutput, Report
from oplab.parity.tested import ModelUnderTest, Runner, RunResult, Unavailable
from oplab.toolchain.library import check_library

WHY_NOT_EXACT = "sums are rounded in another order"
# Each other dtype is exact: an integer that is off by one is a wrong index, and a bool has nothing in between.
EXACT = (0.0, 0.0)


def parity(
    model: Any,
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    backends: Sequence[str] | None = None,
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
        backends: their names, the base first. By default all of :data:`oplab.parity.backends.NAMES`; one that is known to compute
            an operator of the model wrongly (:mod:`oplab.parity.known`) is then not the base.
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
    names = NAMES if backends is None else backends
    _known(names, tolerances)
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
    ran = {name: _run(name, tested, feeds) for name in names}
    done = {
        name: {case: one for case, one in enumerate(found) if isinstance(one, RunResult)} for name, found in ran.items()
    }
    faults = [fault for fault in known_faults(tested.proto) if not fault.backend or done.get(fault.backend)]
    suspects = {fault.backend for fault in faults} - {""}
    # The base is the first; in a case that it failed, the next that has outputs takes its place.
    order = sorted(
        filter(done.get, done),
        key=lambda name: (len(done[name]) < len(feeds), backends is None and name in suspects),
    )

    @functools.cache
    def compare(name: str, against: str, case: int) -> list[BackendOutput]:
        expected = None if name == against else done[against][case].outputs
        terms = done["reference"][case].terms if case in done.get("reference", {}) else {}
        return _rows(name, case, tested, done[name][case], expected, tolerances or {}, terms)

    def agree(name: str, against: str) -> bool:
        shared = done[name].keys() & done[against].keys()
        return not any(row.verdict == "differs" for case in shared for row in compare(name, against, case))

    rows: list[BackendOutput] = []
    for name, found in ran.items():
        for case, one in enumerate(found):
            if isinstance(one, BackendOutput):
                rows.append(one)
            else:
                rows += compare(name, next(first for first in order if case in done[first]), case)
    groups: list[list[str]] = []
    for name in order:
        home = next((group for group in groups if agree(name, group[0])), None)
        if home is None:
            groups.append(home := [])
        home.append(name)
    harmless = len(groups) == 1 and not suspects.issuperset(groups[0])
    warnings = [fault.sentence for fault in faults if not (fault.backend and harmless)]
    if tested.uses_float16 and {*order} & {"ort", "host", "openvino"}:
        warnings += _float16(done.get("reference", {}).values())
    if len(groups) > 1 and in_training(module):
        warnings.append(TRAINING)  # an export in that mode differs from the module: a Dropout stays in the file
    base = order[0] if order else None
    return Report(tuple(rows), base, len(feeds), tuple(map(tuple, groups)), frozenset(suspects), tuple(warnings))


def _float16(results: Collection[RunResult]) -> list[str]:
    engines = "ONNX Runtime and OpenVINO compute float16 in float32 on the CPU"
    if not results:
        return [f"{engines}, so an overflow does not show here; the backend reference would show it"]
    nodes = dict.fromkeys(node for one in results for node in one.overflows)
    return [
        f"{node} overflows in float16 (onnx.reference), the first of {len(nodes)}; {engines} and do not show it, a device may"
        for node in list(nodes)[:1]
    ]


Ran = list[RunResult | BackendOutput]  # for each case its outputs or a row that says why there are none


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


_DTYPES = frozenset({*TOLERANCE, *HOST_DTYPES, "complex64", "complex128"})


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
        run = ready(name, tested)
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
    name: str, case: int, tested: ModelUnderTest, run: Runner, feed: dict[str, np.ndarray]
) -> RunResult | BackendOutput:
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
    return BackendOutput(name, "", case, None, None, None, None, None, None, verdict, reason)


def _rows(
    name: str,
    case: int,
    tested: ModelUnderTest,
    ran: RunResult,
    base: list[np.ndarray] | None,
    tolerances: Mapping[str, tuple[float, float]],
    terms: Mapping[str, float],
) -> list[BackendOutput]:
    rows = []
    for number, (output, got) in enumerate(zip(tested.outputs, ran.outputs, strict=True)):
        milliseconds = ran.milliseconds if number == 0 else None  # a run is one run, however many outputs it has
        dtype, shape = str(got.dtype), tuple(got.shape)
        if base is None:
            verdict, reason, errors, agrees = "base", "the first that ran", (None,) * 3, None
        else:
            pair = tolerances.get(output, tolerances.get(dtype, TOLERANCE.get(dtype, EXACT)))
            verdict, reason, errors = compared(base[number], got, *pair, terms.get(output))
            agrees = verdict != "differs"
        rows.append(BackendOutput(name, output, case, dtype, shape, *errors, agrees, verdict, reason, milliseconds))
    return rows


Errors = tuple[float | None, float | None, float | None]


def compared(
    expected: np.ndarray, got: np.ndarray, rtol: float, atol: float, term: float | None = None
) -> tuple[Agreement, str, Errors]:
    """Compare an array with the expected one.

    Dtypes and shapes have to be equal; NaN and infinities have to be in the same places, infinities with the same sign.

    Args:
        expected, got: arrays of any dtype and shape.
        rtol, atol: an element agrees when ``|got - expected| <= atol + rtol * |expected|``.
        term: the largest magnitude of what was added up. Where terms cancel, the error has its scale, not that of the result.

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
        reason = f"{found.bad} of {found.total} elements differ, first{where}: {values}; {allowed}"
        return "differs", f"{reason}{_scale(expected, found.max_abs, term)}", errors
    if found.max_abs == 0:
        bits = expected.tobytes() == got.tobytes()
        return "equal", "the same bits" if bits else "the same values", errors
    why = WHY_NOT_EXACT if got.dtype.kind in "fc" else "asked for"
    return "close", f"{got.dtype} within {atol:.0e} + {rtol:.0e} of the value ({why})", errors


def _scale(expected: np.ndarray, error: float, term: float | None) -> str:
    """The largest error as a part of the largest term of the sums, or else of the largest value."""
    if expected.dtype.kind not in "fc":
        return ""
    largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=0))
    kind = "value"
    if term is not None and largest < term < math.inf:
        largest, kind = term, "term"
    if not largest or not math.isfinite(error):
        return ""
    return f"; the largest error is {error / largest:.1e} of the largest {kind}, {largest:.3g}"


def _value(value: Any) -> str:
    if np.issubdtype(np.asarray(value).dtype, np.floating):
        return f"{float(value):.7g}"
    return str(value.item())
