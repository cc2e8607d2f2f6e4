"""A cell's function in the learner's file: what ``%%exercise`` writes, and when it refuses."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from oplab.course import stubs
from oplab.course.parsing import parse
from oplab.errors import OplabError
from oplab.files import replacing

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def merged(text: str, cell: str, name: str, file: str, taken: Iterable[str] = ()) -> str:
    """The text of a learner's file with the definitions of a cell.

    The function takes the place of the one in the file. The cell's other definitions, assignments to names and imports take the
    place of those with the same names; new ones come before the function. Everything else in the file stays as it is.

    Args:
        name: the exercise's function.
        taken: the functions of the file's other exercises.

    Raises:
        OplabError: the cell or the file is not valid Python, the cell does not define the function, or it holds something that does
            not belong into the file.
    """
    for names, code, node in _parts(cell, name, file, set(taken)):
        text = _with(text, names, code, node, name, file)
    return text


def write(path: Path, seen: bytes, text: str, file: str) -> None:
    """Write a file that is as it was seen: whole or not at all.

    Args:
        path: the file. A link stays a link.
        seen: its content when it was read.
        text: the new one.

    Raises:
        OplabError: it has changed since, or it cannot be written. It is untouched then.
    """
    path = path.resolve()
    try:
        with replacing(path, mode=path.stat().st_mode & 0o777) as new:
            new.write(text.encode())
            if path.read_bytes() != seen:
                raise OplabError(f"{file} was changed while the cell was written to it.", "Run the cell again.")
    except OSError as error:
        raise OplabError(
            f"{file} cannot be written: {error.strerror}.", "Make the file and its folder writable."
        ) from None


def read(path: Path, file: str) -> tuple[bytes, str]:
    """A learner's file as bytes and as text.

    Raises:
        OplabError: it is missing, cannot be read or is not UTF-8.
    """
    try:
        data = path.read_bytes()
        return data, data.decode("utf-8")
    except FileNotFoundError:
        raise OplabError(f"{file} is missing.", f"`oplab reset {path.stem[:3]}` restores it.") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise OplabError(f"{file} cannot be read: {reason}.", "Fix the file in an editor.") from None


def _parts(cell: str, name: str, file: str, taken: set[str]) -> list[tuple[tuple[str, ...], str, ast.stmt]]:
    """(names, code, statement) of each part of the cell that goes into the file, the exercise's function last."""
    tree = _parsed(cell, "The cell", "Fix that line and run the cell again.")
    lines = cell.split("\n")
    found: dict[tuple[str, ...], tuple[tuple[str, ...], str, ast.stmt]] = {}
    for node in tree.body:
        names = stubs.names_of(node)
        if isinstance(node, _DEFINITIONS):
            code = "\n".join(lines[stubs.first_line(node) - 1 : node.end_lineno])
        elif isinstance(node, _IMPORTS) or (isinstance(node, (ast.Assign, ast.AnnAssign)) and names):
            code = ast.get_source_segment(cell, node) or ""
        else:
            raise OplabError(
                f"Line {node.lineno} of the cell does not define or import anything, so it does not belong in {file}.",
                "Move it to another cell.",
            )
        if others := taken & set(names):
            raise OplabError(
                f"The cell also defines {' and '.join(sorted(others))}, which is an exercise itself.",
                "Write each exercise in its own cell.",
            )
        found[names] = names, code, node  # the last definition wins, as in Python
    own = found.pop((name,), None)
    if own is None or not isinstance(own[2], _DEFINITIONS):
        raise OplabError(f"The cell does not define {name}.", f"Begin the function with `def {name}(`.")
    return [*found.values(), own]


def _with(text: str, names: tuple[str, ...], code: str, node: ast.stmt, function: str, file: str) -> str:
    """The file's text with one part of the cell."""
    body = _parsed(text, file, f"Fix that line in {file} and save it.").body
    if isinstance(node, _IMPORTS):
        return _with_import(text, body, node, code, function, file)
    _not_bound(names, [entry for entry in body if isinstance(entry, _IMPORTS)], file)
    there = [entry for entry in body if stubs.names_of(entry) == names]
    if not there:
        return _inserted(text, code, None if names == (function,) else function)
    first, end = stubs.first_line(there[-1]), there[-1].end_lineno or 0  # the last definition wins
    if any(entry is not there[-1] and entry.lineno <= end and (entry.end_lineno or 0) >= first for entry in body):
        raise OplabError(f"Line {first} of {file} holds several statements.", "Give each its own line and save it.")
    lines = text.split("\n")
    return "\n".join([*lines[: first - 1], code, *lines[end:]])


def _with_import(
    text: str, body: list[ast.stmt], node: ast.Import | ast.ImportFrom, code: str, function: str, file: str
) -> str:
    imports = [entry for entry in body if isinstance(entry, _IMPORTS)]
    known = {name: what for entry in imports for name, what in _bound(entry).items()}
    missing = [name for name, what in _bound(node).items() if known.get(name) != what]
    if not missing:
        return text
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        raise OplabError(f"{file} does not begin with `{code}`.", "Leave that line out of the cell.")
    _not_bound(missing, body, file)
    before = stubs.function_span(text, function)
    above = [entry.end_lineno or 0 for entry in imports if before is None or entry.lineno < before[0]]
    if not above:
        return _inserted(text, code, function)
    lines = text.split("\n")
    return "\n".join([*lines[: above[-1]], code, *lines[above[-1] :]])


def _not_bound(names: Iterable[str], body: Iterable[ast.stmt], file: str) -> None:
    """Refuse a name that a statement of the file gives to something else, on which other answers may depend."""
    lines = {name: entry.lineno for entry in body for name in stubs.names_of(entry)}
    for name in names:
        if name in lines:
            raise OplabError(f"{name} is already something else in {file}, line {lines[name]}.", "Use another name.")


def _bound(node: ast.Import | ast.ImportFrom) -> dict[str, tuple[object, ...]]:
    """What each name of an import is bound to."""
    if isinstance(node, ast.ImportFrom):
        return {alias.asname or alias.name: (node.level, node.module, alias.name) for alias in node.names}
    return {alias.asname or alias.name: (alias.name,) for alias in node.names}


def _inserted(text: str, code: str, before: str | None) -> str:
    """The text with new code before a function and the comment above it, or at the end."""
    lines = text.split("\n")
    span = stubs.function_span(text, before) if before else None
    if span is None:
        head = text.rstrip("\n")
        return "\n".join([*([head, "", ""] if head else []), code, ""])
    at = span[0] - 1
    while at and lines[at - 1].startswith("#"):
        at -= 1
    head = "\n".join(lines[:at]).rstrip("\n")
    return "\n".join([*([head, "", ""] if head else []), code, "", "", *lines[at:]])


def _parsed(text: str, what: str, fix: str) -> ast.Module:
    try:
        return parse(text)
    except SyntaxError as error:
        raise OplabError(f"{what} is not valid Python: line {error.lineno}, {error.msg}.", fix) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise OplabError(f"{what} is not valid Python: {error}.", fix) from None
