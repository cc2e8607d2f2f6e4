"""The text of a check for the learner's process: what ``collect_NAME`` needs, and nothing of the judge's."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from oplab.course.parsing import parse

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@functools.lru_cache(maxsize=256)
def without_judges(text: str, name: str) -> str:
    """``text`` with every top-level definition and constant blanked that ``collect_{name}`` does not reach. Line numbers stay.

    Checks that define their functions in another way than by ``def`` or a plain assignment are returned as they are, and so is what is
    not Python: importing it in the worker shows the error.

    Args:
        text: a chapter's checks.
        name: the exercise's name.
    """
    try:
        tree = parse(text)
    except (SyntaxError, ValueError):
        return text
    wanted = f"collect_{name}"
    if not any(wanted in _targets(statement) for statement in tree.body):
        return text
    waiting, reached = [wanted], set[str]()
    for statement in tree.body:
        if not _targets(statement):  # an import, a loop, a bare call: it stays
            waiting.extend(_names(statement))
    by_name: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for target in _targets(statement):
            by_name.setdefault(target, []).append(statement)
    while waiting:
        found = waiting.pop()
        if found not in reached:
            reached.add(found)
            for statement in by_name.get(found, ()):
                waiting.extend(_names(statement))
    lines = text.splitlines()
    for statement in tree.body:
        targets = _targets(statement)
        if targets and not targets & reached:
            first = min([statement.lineno, *(entry.lineno for entry in getattr(statement, "decorator_list", ()))])
            for number in range(first - 1, statement.end_lineno or first):
                lines[number] = ""
    return "\n".join(lines) + "\n"


def _targets(statement: ast.stmt) -> set[str]:
    if isinstance(statement, _DEFINITIONS):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        entries = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        entries = [statement.target]
    elif isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("oplab.checks.references"):
        return {alias.name for alias in statement.names}  # hidden from an isolated learner
    else:
        return set()
    found = set()
    for entry in entries:
        for part in entry.elts if isinstance(entry, (ast.Tuple, ast.List)) else [entry]:
            if not isinstance(part, ast.Name):
                return set()
            found.add(part.id)
    return found


def _names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier():
            yield part.value  # a quoted annotation, or a name for globals()
