"""``parity(model, inputs)``: one model in several backends, output by output beside the first of them.

>>> report = parity("model.onnx", {"x": x}, module=model)
>>> print(report)          # a table: dtype, shape, largest errors, and a verdict with its reason
>>> report.expect()        # raises where they do not agree
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oplab.errors import OplabError
from oplab.onnxtools.inputs import checked_inputs, input_specs
from oplab.parity import backends as running
from oplab.parity.arrays import TOLERANCE, WrongAnswer, describe, difference, max_ulp
from oplab.parity.backends import NAMES, Job, Unavailable, first_line

Verdict = Literal["base", "equal", "close", "differs", "failed", "not available"]
WHY_NOT_EXACT = "sums are rounded in another order"
# Each other dtype is exact: an integer that is off by one is a wrong index, and a bool has nothing in between.
EXACT = (0.0, 0.0)


@dataclass(frozen=True)
class Row:
    """One output of one backend beside that of the base; or, without an output, why the backend gave none.

    Attributes:
        backend: ``eager``, ``exported``, ``reference``, ``ort`` or ``host``.
        output: the output's name in the model; empty where the backend failed or cannot be used.
        case: which set of inputs, from 0; None where it is about no set in particular.
        dtype, shape: of this backend's output.
        max_abs, max_rel: the largest absolute and relative error; None where nothing was compared. The relative one leaves
            out values that are nearly zero, and is None where all are.
        max_ulp: the largest distance in units of the last place; None for integers and bools.
        agrees: whether it is within the tolerance; None for the base and for a backend that cannot be used.
        verdict: in one word.
        reason: why, in one line.
        milliseconds: the median of a run with these inputs, where times were asked for.
    """

    backend: str
    output: str
    case: int | None
    dtype: str | None
    shape: tuple[int, ...] | None
    max_abs: float | None
    max_rel: float | None
    max_ulp: float | None
    agrees: bool | None
    verdict: Verdict
    reason: str
    milliseconds: float | None = None


@dataclass(frozen=True)
class Report:
    """What :func:`parity` found.

    Attributes:
        rows: backend by backend, in the order asked for.
        base: the backend that the others were compared with; None where none ran.
        cases: how many sets of inputs.
    """

    rows: tuple[Row, ...]
    base: str | None
    cases: int

    @property
    def ran(self) -> tuple[str, ...]:
        """The backends that gave outputs for all inputs."""
        out = [row.backend for row in self.rows if row.verdict in ("failed", "not available")]
        return tuple(dict.fromkeys(row.backend for row in self.rows if row.backend not in out))

    @property
    def passed(self) -> bool:
        """Two backends or more ran, none failed, and all agree. One that cannot be used here does not count."""
        return len(self.ran) > 1 and not any(row.verdict in ("differs", "failed") for row in self.rows)

    def expect(self, *backends: str) -> Report:
        """Demand that all agree, and return the report.

        Args:
            backends: these must have run; by default any two.

        Raises:
            Wrong: with the first row that does not agree, or the backends that are missing.
        """
        for name in backends:
            if name not in self.ran:
                why = next((row.reason for row in self.rows if row.backend == name), "it was not asked for")
                raise WrongAnswer(f"{name} did not run: {why}.")
        for row in self.rows:
            if row.verdict == "failed":
                raise WrongAnswer(f"{row.backend} failed{self._of(row)}: {row.reason}.")
            if row.verdict == "differs":
                raise WrongAnswer(f"{row.backend} and {self.base} differ in {row.output}{self._of(row)}: {row.reason}.")
        if len(self.ran) < 2:
            missing = "; ".join(f"{row.backend}: {row.reason}" for row in self.rows if row.backend not in self.ran)
            raise WrongAnswer(f"{self.summary()[:-1]} ({missing}).")
        return self

    def summary(self) -> str:
        """One line: who agrees, or who does not."""
        if len(self.ran) < 2:
            return f"Nothing was compared: {f'{self.ran[0]} alone ran' if self.ran else 'no backend ran'}."
        failed = list(dict.fromkeys(row.backend for row in self.rows if row.verdict in ("differs", "failed")))
        if failed:
            return f"{_and(failed)} {'does' if len(failed) == 1 else 'do'} not agree with {self.base}."
        others = [name for name in self.ran if name != self.base]
        return f"{_and(others)} {'agrees' if len(others) == 1 else 'agree'} with {self.base}."

    def text(self, *, errors: bool = True) -> str:
        """A table in plain text, the reasons behind it, and the summary.

        Args:
            errors: with the columns of errors and the reasons in numbers. They differ from machine to machine in their last
                digit: leave them out of text that is compared. Then floats that are equal are ``close``, too: on another
                processor they may be one rounding apart.
        """
        header, lines = self._table(errors)
        widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
        right = {i for i, name in enumerate(header) if name.startswith("max") or name == "ms"}

        def aligned(line: Sequence[str]) -> str:
            cells = (
                c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))
            )
            return "  ".join(cells).rstrip()

        return "\n".join([*map(aligned, [header, *lines]), *self._notes(errors), self.summary()])

    def markdown(self, *, errors: bool = True) -> str:
        """The same as a table in Markdown."""
        header, lines = self._table(errors)
        marks = ["---:" if name.startswith("max") or name == "ms" else "---" for name in header]
        rows = [
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in [header, marks, *lines]
        ]
        return "\n\n".join(["\n".join(rows), *self._notes(errors), self.summary()])

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that JSON cannot write (inf) are strings."""

        def plain(value: Any) -> Any:
            if isinstance(value, float) and not math.isfinite(value):
                return str(value)
            return list(value) if isinstance(value, tuple) else value

        rows = [{name: plain(value) for name, value in asdict(row).items()} for row in self.rows]
        return {"version": 1, "passed": self.passed, "base": self.base, "cases": self.cases, "rows": rows}

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Report: {self.summary()}>"

    def _repr_html_(self) -> str:
        header, lines = self._table(True)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>" for line in lines)
        notes = "".join(f"<div>{html.escape(note)}</div>" for note in [*self._notes(True), self.summary()])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"

    def _of(self, row: Row) -> str:
        return f" of case {row.case}" if self.cases > 1 and row.case is not None else ""

    def _table(self, errors: bool) -> tuple[list[str], list[list[str]]]:
        """The header and the cells of each row, as text."""
        cases, times = self.cases > 1, any(row.milliseconds is not None for row in self.rows)
        header = ["backend", *(["case"] if cases else []), "output", "type"]
        header += [*(["max abs", "max rel", "max ULP"] if errors else []), *(["ms"] if times else []), "verdict"]
        lines = []
        for row in self.rows:
            verdict = row.verdict
            if verdict == "equal" and row.max_ulp is not None and not errors:
                verdict = "close"  # floats
            if verdict in ("failed", "not available") or (verdict == "differs" and errors):
                verdict = f"{verdict}: {row.reason}"
            line = [row.backend, *(["" if row.case is None else str(row.case)] if cases else []), row.output]
            line.append("" if row.dtype is None else f"{row.dtype}{list(row.shape or ())}")
            if errors:
                line += [_short(row.max_abs), _short(row.max_rel), _short(row.max_ulp)]
            if times:
                line.append("" if row.milliseconds is None else f"{row.milliseconds:.3g}")
            lines.append([*line, verdict])
        return header, lines

    def _notes(self, errors: bool) -> list[str]:
        """What ``close`` allows, once for each dtype."""
        if not errors:
            return []
        return list(dict.fromkeys(f"close: {row.reason}" for row in self.rows if row.verdict == "close"))


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
    """Run one model in several backends and compare every output with that of the first that runs.

    Args:
        model: a path, serialized bytes, a ModelProto, or what ``torch.onnx.export`` returns.
        inputs: an array or tensor for each input of the model by name; or several such dicts, the cases.
        backends: which, the base first.
            ``eager``: ``module`` as it is. ``exported``: the ExportedProgram inside an ONNXProgram, or ``module`` through
            ``torch.export`` for the shapes at hand. ``reference``: ``onnx.reference`` with
            :data:`oplab.ops.reference.OPERATORS`. ``ort``: ``oplab.session``. ``host``: the C++ program.
        module: the PyTorch module or function that the model was made from. Its parameters are given by name where they are
            called as the model's inputs, else in the model's order; a module in training mode is run in eval mode.
        tolerances: ``{"float32": (rtol, atol)}``, by dtype or by the name of an output; an element agrees when
            ``|got - base| <= atol + rtol * |base|``. The others are those of :data:`oplab.parity.arrays.TOLERANCE`; integers and
            bools are exact.
        libraries: custom-op libraries for ``ort`` and ``host``, as in ``oplab.session``.
        reference: further ``OpRun`` classes; they come before the course's.
        times: measure the median of some runs for each backend.

    Returns:
        The report. A backend that cannot be used is a row with its reason, one that raises is a row that failed.

    Raises:
        OplabError: the call is wrong: no model, an unknown backend, or inputs that do not fit the model.
    """
    _known(backends, tolerances)
    job = Job(model, module, _existing(libraries), tuple(reference or ()), times)
    for name in tolerances or {}:
        if name not in job.outputs and name not in _DTYPES:
            raise OplabError(
                f"There is a tolerance for {name!r}, which is neither a dtype nor an output of the model.",
                f"Its outputs are: {', '.join(job.outputs)}.",
            )
    cases = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    if not cases:
        raise OplabError("There are no inputs: the list is empty.", "Give one dict of arrays, or several.")
    wanted = input_specs(job.proto)
    feeds = [
        checked_inputs(wanted, case, f" of case {number}" if len(cases) > 1 else "")
        for number, case in enumerate(cases)
    ]
    base: tuple[str, list[running.Ran]] | None = None
    rows: list[Row] = []
    for name in backends:
        ran = _run(name, job, feeds)
        if isinstance(ran, Row):
            rows.append(ran)
            continue
        if base is None:
            base = name, ran
        for number, one in enumerate(ran):
            beside = None if base[0] == name else base[1][number].outputs
            rows += _rows(name, number, job, one, beside, tolerances or {})
    return Report(tuple(rows), base[0] if base else None, len(feeds))


def _known(backends: Sequence[str], tolerances: Mapping[str, tuple[float, float]] | None) -> None:
    if isinstance(backends, str):
        raise OplabError(f"backends is the text {backends!r}.", f'Give a list: ["{backends}", …].')
    for name in backends:
        if name not in NAMES:
            raise OplabError(f"There is no backend {name}.", f"It can be {', '.join(NAMES)}.")
    if len(set(backends)) < len(backends) or not backends:
        raise OplabError("Name each backend once, and at least one.", f"They are {', '.join(NAMES)}.")
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
    return tuple(Path(library) for library in libraries)


def _run(name: str, job: Job, feeds: list[dict[str, np.ndarray]]) -> list[running.Ran] | Row:
    """What a backend gave for each case, or the row that says why it gave nothing."""
    ran: list[running.Ran] = []
    case: int | None = None
    try:
        run = running.ready(name, job)
        for feed in feeds:
            case = len(ran)
            one = run(feed)
            if len(one.outputs) != len(job.outputs):
                outputs = f"{len(one.outputs)} output{'' if len(one.outputs) == 1 else 's'}"
                raise RuntimeError(f"it gives {outputs}, and the model has {len(job.outputs)}")
            ran.append(one)
    except Unavailable as reason:
        return _no_output(name, None, "not available", str(reason))
    except Exception as error:  # a backend may raise anything: that is a finding, not a failure of the comparison
        kind = "" if isinstance(error, RuntimeError | OplabError) else f"{type(error).__name__}: "
        return _no_output(name, case, "failed", f"{kind}{first_line(error)}")
    return ran


def _no_output(name: str, case: int | None, verdict: Verdict, reason: str) -> Row:
    agrees = False if verdict == "failed" else None
    return Row(name, "", case, None, None, None, None, None, agrees, verdict, reason)


def _rows(
    name: str,
    case: int,
    job: Job,
    ran: running.Ran,
    base: list[np.ndarray] | None,
    tolerances: Mapping[str, tuple[float, float]],
) -> list[Row]:
    rows = []
    for number, (output, got) in enumerate(zip(job.outputs, ran.outputs, strict=True)):
        milliseconds = ran.milliseconds if number == 0 else None  # a run is one run, however many outputs it has
        dtype, shape = str(got.dtype), tuple(got.shape)
        if base is None:
            rows.append(
                Row(
                    name, output, case, dtype, shape, None, None, None, None, "base", "the first that ran", milliseconds
                )
            )
            continue
        pair = tolerances.get(output, tolerances.get(dtype, TOLERANCE.get(dtype, EXACT)))
        verdict, reason, errors = compared(base[number], got, *pair)
        agrees = verdict != "differs"
        rows.append(Row(name, output, case, dtype, shape, *errors, agrees, verdict, reason, milliseconds))
    return rows


Errors = tuple[float | None, float | None, float | None]


def compared(expected: np.ndarray, got: np.ndarray, rtol: float, atol: float) -> tuple[Verdict, str, Errors]:
    """The verdict on one array beside another, its reason, and the largest absolute, relative and ULP error.

    Dtype and shape have to be the same, NaN has to be where NaN is, and an infinity where one of its sign is.
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


def _short(value: float | None) -> str:
    if value is None:
        return ""
    if value == int(value) if math.isfinite(value) else False:
        return str(int(value)) if abs(value) < 1e6 else f"{value:.1e}"
    return f"{value:.1e}" if math.isfinite(value) else str(value)


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
