"""The part of a file that answers one exercise."""

from __future__ import annotations

import ast

from oplab.course.manifest import Exercise
from oplab.course.parsing import parse

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def own_part(text: str, exercise: Exercise) -> str:
    """The exercise's function with the definitions and imports of the file that it uses, directly or not, in the order of the file.

    Of several definitions of one name the last one counts, as in Python. A C++ file is one answer, and a text that is not valid
    Python is taken whole. Empty if the file has no such function.
    """
    if exercise.kind != "python":
        return text
    try:
        body = parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    lines = text.split("\n")
    where: dict[str, list[ast.stmt]] = {}
    for node in body:
        for name in _bound(node):
            if isinstance(node, _Definition):
                where[name] = [node]
            else:
                where.setdefault(name, []).append(node)
    if not any(isinstance(node, _Definition) for node in where.get(exercise.name, ())):
        return ""
    waiting, known = [exercise.name], {exercise.name}
    chosen: list[ast.stmt] = []
    while waiting:
        for node in where[waiting.pop()]:
            if node in chosen:
                continue
            chosen.append(node)
            new = (_mentioned(node) & where.keys()) - known
            known |= new
            waiting += sorted(new)
    parts = []
    for node in sorted(chosen, key=lambda node: node.lineno):
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        parts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "".join(part + ("\n" if part.startswith(("import ", "from ")) else "\n\n") for part in parts)


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement at the top level binds."""
    if isinstance(node, _Definition):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _mentioned(node: ast.stmt) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
