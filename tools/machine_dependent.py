"""What of a notebook depends on the processor or its load, as far as a machine can tell; ``tools/notebooks.py`` refuses it.

Two rules. The compared text holds no durations, speeds, unrounded errors, points for speed, or claims that two floating-point
results are equal. And no cell asserts a duration or prints one, except in a line that begins with the clock, which nbval leaves out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

from oplab.timing import CLOCK

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = {
    "a duration": r"(?<![\w.])\d+(\.\d+)?\s?(ns|µs|us|ms|s|sec|seconds?)\b(?!\.\w)",
    "a speed": r"\b\d[\d.,]*\s?([KMGT]?B/s|[KMGT]?FLOPS?(/s)?|calls a second)\b",
    "a comparison of speeds": r"\b(fast|faster|fastest|slow|slower|slowest|times as long)\b.*: (True|False)\b",
    "a ratio of durations": r"\d\s?(×|x|times) (as fast|faster|slower|as long|the speed)",
    "an unrounded error": r"(?<![\w.])\d\.\d+e-\d+|(?<![\w.])0(\.0)?e\+00",
    "a number of cores": r"\b\d+ (cores?|CPUs?|processors?)\b",
    "floats that are equal": r"float(16|32|64)\[[^]]*\]\s+equal$",
}
# Lines that look like it and hold on every processor, with the reason.
ALLOWED = {
    "stored - 0.1 = 1.5e-09": "a float32 constant, subtracted in Python",
    "2.3 - float32(2.3) = 4.8e-08": "a float32 constant, subtracted in Python",
    "after   12 of 49 nodes: agrees   'add_1': error 0.0e+00": "one kernel twice, on the same inputs",
    "after   13 of 49 nodes: agrees   'relu_4': error 0.0e+00": "one kernel twice, on the same inputs",
}
A_WEIGHT = re.compile(r"B = \[2\.698e-05\]")  # a bias of SRCNN's file
CLOCKS = {"perf_counter", "perf_counter_ns", "process_time", "monotonic", "time_ns", "timeit", "times_as_fast", "race"}
MEASURED = CLOCKS | {"seconds", "milliseconds", "elapsed"}  # as attributes: build.seconds


def findings(notebook: nbformat.NotebookNode) -> list[str]:
    """One sentence for each line or statement that depends on the machine."""
    found = []
    durations: set[str] = set()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    for number, cell in enumerate(cells, start=1):
        for line in _compared(cell):
            what = next((what for what, pattern in PATTERNS.items() if re.search(pattern, line)), "")
            if what and line not in ALLOWED:
                found.append(
                    f"code cell {number} prints {what}, which depends on the processor or its load: {line[:120]}"
                )
        for line, what in _uses(cell.source, durations):
            found.append(
                f"code cell {number}, line {line}, {what} a duration; print it in a line that begins with {CLOCK}"
            )
    return found


def _compared(cell: nbformat.NotebookNode) -> Iterator[str]:
    """The lines that nbval compares, but for HTML."""
    for output in cell.outputs:
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        for line in text.splitlines():
            if not line.lstrip(" ").startswith(f"{CLOCK} "):
                yield A_WEIGHT.sub("", line)


def _uses(source: str, durations: set[str]) -> Iterator[tuple[int, str]]:
    """(line, "asserts" or "prints") of each statement that does so with a duration.

    Args:
        durations: the names that hold durations, or are functions that read a clock; those of this cell are added, and a name
            that is assigned something else is taken out.
    """

    def measured(node: ast.AST) -> bool:
        parts = list(ast.walk(node))
        # The variables of its comprehensions are its own, whatever holds that name outside.
        own = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        return any(
            (isinstance(part, ast.Name) and part.id in (durations | CLOCKS) - own)
            or (isinstance(part, ast.Attribute) and part.attr in MEASURED)
            for part in parts
        )

    def assign(target: ast.AST, value: ast.AST) -> None:
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                (durations.add if measured(value) else durations.discard)(part.id)

    def look(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                (durations.add if _times(node) else durations.discard)(node.name)
            elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
                for target in getattr(node, "targets", None) or [node.target]:
                    assign(target, node.value)
            elif isinstance(node, ast.Assert) and measured(node.test):
                yield node.lineno, "asserts"
            elif (
                isinstance(node, ast.Expr) and _prints(node.value) and measured(node.value) and not _clocked(node.value)
            ):
                yield node.lineno, "prints"
            if isinstance(node, ast.For):
                assign(node.target, node.iter)
            for inner in ("body", "orelse", "finalbody"):
                if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                    yield from look(getattr(node, inner, []))

    try:
        tree = ast.parse(source)
    except SyntaxError:  # a magic of IPython
        return
    yield from look(tree.body)


def _times(function: ast.FunctionDef) -> bool:
    """Whether a function reads a clock and returns something."""
    parts = list(ast.walk(function))
    reads = any(isinstance(part, ast.Attribute) and part.attr in CLOCKS for part in parts)
    return reads and any(isinstance(part, ast.Return) and part.value for part in parts)


def _prints(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"


def _clocked(call: ast.Call) -> bool:
    first = call.args[0] if call.args else None
    if isinstance(first, ast.JoinedStr) and first.values:
        first = first.values[0]
    return isinstance(first, ast.Constant) and str(first.value).lstrip(" ").startswith(f"{CLOCK} ")
