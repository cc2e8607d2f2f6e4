"""Stubs are made from solutions, so that the two cannot drift apart and a stub can always be restored.

A solution marks what the learner has to write::

    # ANSWER c04.asinh: map torch.asinh to ONNX from opset 9 on
    torch.onnx.register_custom_op_symbolic(...)
    # END

In the stub the block becomes one TODO with the same goal. A block whose first line has no goal (``# ANSWER c04.asinh``) is a helper
of the solution and is left out of the stub. C++ files use ``//``.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
import warnings

from oplab.course.manifest import NUMBER
from oplab.course.parsing import parse
from oplab.errors import OplabError

_ANSWER = re.compile(rf"^(?P<indent>\s*)(?P<mark>#|//) ANSWER (?P<id>c{NUMBER}\.[a-z0-9_]+)(?:: (?P<goal>.+))?$")
_END = re.compile(r"^\s*(?:#|//) END$")
_LINE = re.compile(r"(?<=line )\d+")
_DEFINITION = re.compile(r"(?:async\s+def|def|class)\s+(\w+)")


def _not_written(id: str) -> str:
    return f"{id} is not written yet"


def is_stubs_error(id: str, message: str) -> bool:
    """Whether a compiler's message about an exercise is the ``#error`` that its stub has in place of an answer."""
    return _not_written(id) in message


class Todo(NotImplementedError):
    """Raised by a stub: the grader's outcome is ``todo`` then, and a notebook shows the message without a traceback.

    Attributes:
        id: the exercise.
    """

    def __init__(self, id: str, where: str):
        super().__init__(f"{_not_written(id)}: {where}. `oplab hint {id}` helps.")
        self.id = id

    def _render_traceback_(self) -> list[str]:  # IPython calls this instead of printing its own traceback
        return [str(self)]


def todo(id: str) -> Todo:
    """The exception that a stub raises: ``raise todo("c04.asinh")``. Its message names the exercise, the file and the line."""
    frame = sys._getframe(1)
    file = frame.f_code.co_filename.replace("\\", "/")
    short = "/".join(file.split("/")[-2:])
    return Todo(id, f"{short}, line {frame.f_lineno}")


def make_stub(solution: str, name: str) -> str:
    """The stub's text for a solution's text."""
    lines: list[str] = []
    opened: int | None = None
    for number, line in enumerate(solution.splitlines(), start=1):
        match = _ANSWER.match(line)
        if match:
            if opened is not None:
                raise OplabError(f"{name}, line {number}: the ANSWER of line {opened} has no END yet.")
            opened = number
            if match["goal"]:
                lines.append(f"{match['indent']}{match['mark']} TODO {match['id']}: {match['goal']}")
                if match["mark"] == "#":
                    lines.append(f'{match["indent"]}raise todo("{match["id"]}")')
                else:
                    lines.append(f'#error "{_not_written(match["id"])}"')
        elif _END.match(line):
            if opened is None:
                raise OplabError(f"{name}, line {number}: END without an ANSWER before it.")
            opened = None
        elif opened is None:
            lines.append(line)
    if opened is not None:
        raise OplabError(f"{name}, line {opened}: this ANSWER has no END.")
    text = "\n".join(lines) + "\n"
    return re.sub(r"\n{4,}", "\n\n\n", text)  # a dropped helper leaves the blank lines of both its sides


def line_of(text: str, id: str, name: str) -> int | None:
    """The line, counted from 1, where an exercise is written: its TODO, or once that is gone its function; None if neither is there."""
    for mark in (f"TODO {id}:", f"def {name}("):
        for number, line in enumerate(text.splitlines(), start=1):
            if mark in line:
                return number
    return None


def function_span(text: str, name: str) -> tuple[int, int] | None:
    """First and last line (from 1, both included) of the top-level function ``name``, with its decorators; None if absent.

    Raises:
        SyntaxError: the text is not valid Python.
    """
    return function_spans(text).get(name)


def function_spans(text: str) -> dict[str, tuple[int, int]]:
    """First and last line of each top-level function or class, as in :func:`function_span`.

    Raises:
        SyntaxError: what precedes the first of them is not valid Python.
    """
    try:
        tree = parse(text)
    except SyntaxError:
        tree = parse(readable(text)[0])
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            # The last definition wins, as in Python.
            found[node.name] = (first_line(node), node.end_lineno or node.lineno)
    return found


def readable(text: str) -> tuple[str, dict[str, SyntaxError]]:
    """The text, where each top-level definition that is not valid Python is replaced by one that raises its SyntaxError.

    The text is cut where its definitions begin; what follows a definition belongs to it. Each line keeps its number.

    Returns:
        the text, and the errors by the names of their definitions.

    Raises:
        SyntaxError: what precedes the first definition is not valid Python.
        ValueError: the text contains null bytes.
    """
    try:
        _compile(text)
        return text, {}
    except SyntaxError as error:
        whole = error
    lines = text.split("\n")
    begins: list[tuple[int, str]] = []
    decorated = False
    for number, line in enumerate(lines):
        found = _DEFINITION.match(line)
        if decorated and found:
            begins[-1] = begins[-1][0], found[1]
        elif not decorated and (found or line.startswith("@")):
            begins.append((number, found[1] if found else "_"))
        decorated = not found and (decorated or line.startswith("@"))
    errors: dict[str, SyntaxError] = {}
    for (first, name), (end, _) in itertools.pairwise([*begins, (len(lines), "")]):
        while end > first + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
            end -= 1  # it belongs to the next one
        try:
            _compile("\n".join(lines[first:end]))
            errors.pop(name, None)  # the last definition wins
        except SyntaxError as error:
            error.lineno = min(first + (error.lineno or 1), end)
            error.msg = _LINE.sub(lambda found, first=first: str(first + int(found[0])), error.msg)
            error.text = lines[error.lineno - 1]
            errors[name] = error
            lines[first:end] = [f"def {name}(*_, **__): raise {type(error).__name__}(", *[""] * (end - first - 1)]
            lines[end - 1] += f"{error.msg!r}, (__file__, {error.lineno}, {error.offset}, {error.text!r}))"
    new = "\n".join(lines)
    try:
        _compile(new)
    except SyntaxError:
        raise whole from None
    return new, errors


def _compile(text: str) -> None:
    """Raise what Python would; a tree is not enough, for it may have a return outside of functions. Warnings come when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(text, "<unknown>", "exec", dont_inherit=True)


def first_line(node: ast.stmt) -> int:
    """The first line of a statement, counted from 1: of its first decorator, if it has one."""
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def names_of(node: ast.stmt) -> tuple[str, ...]:
    """The names that a top-level statement defines: a function, a class, imported names or assigned ones."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return (node.name,)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return tuple(alias.asname or alias.name.split(".")[0] for alias in node.names)
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        found = (part for target in targets for part in ast.walk(target))
        return tuple(part.id for part in found if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
    return ()


def function_text(text: str, name: str) -> str | None:
    """The source of the top-level function or class ``name`` without a line end, or None if it is absent.

    Raises:
        SyntaxError: the text is not valid Python.
    """
    span = function_span(text, name)
    if span is None:
        return None
    return "\n".join(text.splitlines()[span[0] - 1 : span[1]])


def is_untouched(text: str, stub: str, name: str | None) -> bool:
    """Whether the learner's text still holds the stub. Docstrings, comments of C++, blank lines and trailing blanks do not count.

    Args:
        name: the function to compare; None compares whole files (C++).

    Raises:
        SyntaxError: the learner's text is not valid Python.
    """
    if name is None:
        return _plain(bare(text, "//")) == _plain(bare(stub, "//"))
    mine, original = (function_text(bare(given), name) for given in (text, stub))
    return mine is not None and original is not None and _plain(mine) == _plain(original)


def bare(text: str, mark: str = "#") -> str:
    """A file with blank lines in place of its docstrings (of its comments where ``mark`` is that of C++): the same in each language."""
    lines = text.split("\n")
    if mark == "//":
        return "\n".join("" if line.strip().startswith(mark) else line for line in lines)
    try:
        tree = parse(readable(text)[0])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(
            node
        ):
            span = node.body[0]
            first, last = span.lineno - 1, span.end_lineno or span.lineno
            # what begins on the line above it or goes on after it is code
            if not lines[first][: span.col_offset].strip() and len(node.body) > 1 and node.body[1].lineno > last:
                lines[first:last] = [""] * (last - first)
    return "\n".join("" if line.lstrip().startswith("# TODO c") else line for line in lines)


def restore(text: str, stub: str, name: str) -> str:
    """``text`` with the function ``name`` put back to its stub. Everything else is kept.

    Raises:
        SyntaxError: the learner's text is not valid Python.
    """
    original = function_text(stub, name)
    if original is None:
        raise OplabError(f"The stub has no function {name}.")
    span = function_span(text, name)
    lines = text.splitlines()
    if span is None:
        return "\n".join([*lines, "", "", *original.splitlines()]) + "\n"
    return "\n".join([*lines[: span[0] - 1], *original.splitlines(), *lines[span[1] :]]) + "\n"


def _plain(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]
