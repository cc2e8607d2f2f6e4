"""The report of a comparison: a row for each output of each backend, as text, Markdown, HTML or JSON."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from oplab.parity.arrays import WrongAnswer

Agreement = Literal["base", "equal", "close", "differs", "failed", "not available"]

# Whose implementation of the operators a backend runs. Two backends with the same one agree even where it is wrong.
IMPLEMENTATION = {
    "eager": "PyTorch",
    "exported": "PyTorch",
    "reference": "onnx.reference",
    "ort": "ONNX Runtime",
    "host": "ONNX Runtime",
    "openvino": "OpenVINO",
    "ncnn": "ncnn",
}


@dataclass(frozen=True)
class BackendOutput:
    """One output of one backend, compared with the base; or, without an output, why the backend gave none.

    Attributes:
        backend: ``eager``, ``exported``, ``reference``, ``ort``, ``host``, ``openvino`` or ``ncnn``.
        output: the output's name in the model; empty where the backend failed or cannot be used.
        case: the number of the set of inputs, from 0; None if the row is not about one set.
        dtype, shape: of this backend's output.
        max_abs, max_rel: the largest absolute and relative error; None if nothing was compared. The relative error leaves
            out values that are nearly zero, and is None if all are.
        max_ulp: the largest distance in units of the last place; None for integers and bools.
        agrees: whether the output is within the tolerance; None for the base and where there is no output.
        verdict: in one word.
        reason: why, in one line.
        milliseconds: the median duration of a run with these inputs; None if times were not asked for.
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
    verdict: Agreement
    reason: str
    milliseconds: float | None = None


@dataclass(frozen=True)
class Report:
    """What :func:`oplab.parity.parity` found.

    Attributes:
        rows: backend by backend, in the order asked for.
        base: the backend that the other backends were compared with: the first that has outputs for all cases, or else for some; None
            if no backend ran. In a case that it failed, the first that has outputs takes its place.
        cases: the number of sets of inputs.
        groups: the backends with outputs; those of one group agree with its first, and the first group is that of the base.
        suspects: the backends that are known to compute an operator of the model wrongly: their agreement proves nothing.
        warnings: what to know before a backend is blamed, a sentence each.
    """

    rows: tuple[BackendOutput, ...]
    base: str | None
    cases: int
    groups: tuple[tuple[str, ...], ...] = ()
    suspects: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def ran(self) -> tuple[str, ...]:
        """The backends that have outputs for all inputs."""
        out = [row.backend for row in self.rows if row.verdict in ("failed", "not available")]
        return tuple(dict.fromkeys(row.backend for row in self.rows if row.backend not in out))

    @property
    def independent(self) -> bool:
        """Whether two implementations of the operators ran: two of PyTorch, ``onnx.reference`` and ONNX Runtime with its libraries."""
        return len({IMPLEMENTATION[name] for name in self.ran}) > 1

    @property
    def passed(self) -> bool:
        """Whether independent backends ran, none failed, and all agree. A backend that cannot be used does not count."""
        return self.independent and not any(row.verdict in ("differs", "failed") for row in self.rows)

    def expect(self, *backends: str) -> Report:
        """Return the report if all backends agree.

        Args:
            backends: the backends that must have run; by default any two that are independent of each other.

        Raises:
            WrongAnswer: the message has the first row that does not agree, or the backends that are missing.
        """
        for name in backends:
            if name not in self.ran:
                rows = [row for row in self.rows if row.backend == name]
                if failed := next((row for row in rows if row.verdict == "failed"), None):
                    raise WrongAnswer(f"{name} failed{self._of(failed)}: {failed.reason}.")
                raise WrongAnswer(f"{name} did not run: {rows[0].reason if rows else 'it was not asked for'}.")
        for row in self.rows:
            if row.verdict == "failed":
                raise WrongAnswer(f"{row.backend} failed{self._of(row)}: {row.reason}.")
            if row.verdict == "differs":
                raise WrongAnswer(f"{row.backend} and {self.base} differ in {row.output}{self._of(row)}: {row.reason}.")
        if len(self.ran) < 2:
            missing = "; ".join(f"{row.backend}: {row.reason}" for row in self.rows if row.backend not in self.ran)
            raise WrongAnswer(f"{self.summary()[:-1]} ({missing}).")
        if not backends and not self.independent:
            raise WrongAnswer(self.summary())
        return self

    def summary(self) -> str:
        """One line: which backends failed, and which agree or do not."""
        rows = {row.backend: row for row in reversed(self.rows) if row.verdict == "failed"}
        failed = "".join(f"{row.backend} failed{self._of(row)}: {row.reason}; " for row in reversed(rows.values()))
        compared = [name for group in self.groups for name in group]
        if len(compared) < 2:
            nothing = f"othing was compared: {f'{compared[0]} alone ran' if compared else 'no backend ran'}."
            return f"{failed}n{nothing}" if failed else f"N{nothing}"
        if len(self.groups) > 1:
            return f"{failed}{self._disagreement()}"
        if failed:
            elsewhere = " in the other cases" if rows.keys() & set(compared) else ""
            return f"{failed}{_and(compared)} agree{elsewhere}."
        others = [name for name in self.ran if name != self.base]
        agreement = f"{_and(others)} {'agrees' if len(others) == 1 else 'agree'} with {self.base}"
        if self.independent:
            return f"{agreement}."
        if IMPLEMENTATION[others[0]] == "PyTorch":
            return f"{agreement}, which proves nothing about the ONNX model: no backend ran it."
        return (
            f"{agreement}, which proves nothing: both are ONNX Runtime with the same kernels. "
            "Give the PyTorch module, or a reference."
        )

    def _disagreement(self) -> str:
        others = [name for group in self.groups[1:] for name in group]
        differ = f"{_and(others)} {'does' if len(others) == 1 else 'do'} not agree with {self.base}"
        kinds = [{IMPLEMENTATION[name] for name in group if name not in self.suspects} for group in self.groups]
        proven = [group for group, kind in zip(self.groups, kinds, strict=True) if len(kind) > 1]
        if len(proven) != 1:
            alone = len(self.groups) > 2 and not proven
            return f"{differ}; {'no two implementations agree' if alone else 'either can be wrong'}."
        odd = [name for group in self.groups if group not in proven for name in group]
        agreeing = _and(proven[0])
        if {IMPLEMENTATION[name] for name in odd} == {
            "PyTorch"
        }:  # it runs the module, and the other backends the model
            return f"{agreeing} do not agree with {_and(odd)}: the model computes something else than the module."
        return f"{_and(odd)} alone {'differs' if len(odd) == 1 else 'differ'}: {agreeing} agree."

    def text(self, *, errors: bool = True) -> str:
        """A table in plain text, what ``close`` allows, and the summary.

        Args:
            errors: whether to include the columns of errors and the numbers in the reasons. Their last digits differ from
                machine to machine: leave them out of text that is compared. Equal floats are then ``close`` too, because on
                another processor they may differ by a rounding.
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
        """The same as :meth:`text`, as a table in Markdown."""
        header, lines = self._table(errors)
        marks = ["---:" if name.startswith("max") or name == "ms" else "---" for name in header]
        rows = [
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in [header, marks, *lines]
        ]
        return "\n\n".join(["\n".join(rows), *self._notes(errors), self.summary()])

    def as_dict(self) -> dict[str, Any]:
        """The report for JSON; numbers that JSON does not have (inf) are strings."""

        def plain(value: Any) -> Any:
            if isinstance(value, float) and not math.isfinite(value):
                return str(value)
            return list(value) if isinstance(value, tuple) else value

        rows = [{name: plain(value) for name, value in asdict(row).items()} for row in self.rows]
        return {
            "version": 1,
            "passed": self.passed,
            "summary": self.summary(),
            "base": self.base,
            "cases": self.cases,
            "groups": self.groups,
            "warnings": self.warnings,
            "rows": rows,
        }

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

    def _of(self, row: BackendOutput) -> str:
        return f" in case {row.case}" if self.cases > 1 and row.case is not None else ""

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
        """What ``close`` allows, once for each dtype, and the warnings."""
        close = dict.fromkeys(f"close: {row.reason}" for row in self.rows if row.verdict == "close" and errors)
        return [*close, *(f"warning: {warning}" for warning in self.warnings)]


def _short(value: float | None) -> str:
    if value is None:
        return ""
    if value == int(value) if math.isfinite(value) else False:
        return str(int(value)) if abs(value) < 1e6 else f"{value:.1e}"
    return f"{value:.1e}" if math.isfinite(value) else str(value)


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
