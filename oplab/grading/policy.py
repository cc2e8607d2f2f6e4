"""What an exercise does not allow, ``not_allowed`` in ``course.toml``: modules and headers that have its answer in them.

A header counts when the compiler has read it, directly or through another. A module counts when the exercise's function uses it:
an import at the top of the file for another exercise does no harm. What loads it while the function runs is refused, too.
"""

from __future__ import annotations

import ast
import fnmatch
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from oplab.course.manifest import Exercise
from oplab.course.parsing import parse


class NotAllowed(ImportError):
    """The learner's code loads a module that the exercise does not allow."""


def included(exercise: Exercise, read: Iterable[Path], root: Path) -> str:
    """A sentence about the first file that the exercise does not allow, empty if there is none.

    Args:
        exercise: what is graded.
        read: what the compiler has read.
        root: the course.
    """
    for entry in exercise.not_allowed:
        folder = (root / entry).parent.resolve()  # csrc of a course may be a link
        for file in read:
            if file.parent == folder and fnmatch.fnmatchcase(file.name, PurePath(entry).name):
                return _sentence(exercise.id, str(PurePath(entry).with_name(file.name)), "included")
    return ""


def imported(exercise: Exercise, text: str) -> str:
    """A sentence about the first module that the exercise's function uses and may not, empty if there is none.

    Args:
        exercise: what is graded.
        text: the learner's file, which is valid Python.
    """
    if exercise.not_allowed:
        for name in sorted(_used(parse(text), exercise.name)):
            if entry := _match(name, exercise.not_allowed):
                return _sentence(exercise.id, entry, "used")
    return ""


def enforce(id: str, entries: Sequence[str], file: Path) -> None:
    """For the worker: from now on, refuse to load these modules where the code in ``file`` is what asks for them."""
    if entries:
        sys.meta_path.insert(0, _Refusing(id, entries, str(file)))  # type: ignore[arg-type]


class _Refusing:
    """A finder that finds nothing."""

    def __init__(self, id: str, entries: Sequence[str], file: str):
        self.id, self.entries, self.file = id, entries, file

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        entry = _match(name, self.entries)
        if entry and self._asked_by_learner():
            raise NotAllowed(_sentence(self.id, entry, "used"))

    def _asked_by_learner(self) -> bool:
        """Whether the code nearest to the import is the learner's, and not that of a check which the learner's code has called."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.file:
                return True
            if "/oplab/checks/" in frame.f_code.co_filename:
                return False
            frame = frame.f_back
        return False


def _sentence(id: str, what: str, how: str) -> str:
    return f"{what} is {how}, and {id} does not allow that, because it contains the answer. Write it yourself."


def _match(name: str, entries: Iterable[str]) -> str:
    return next((entry for entry in entries if name == entry or name.startswith(f"{entry}.")), "")


def _used(tree: ast.Module, function: str) -> set[str]:
    """The dotted names of modules, and of what is in them, that a top-level function uses, also through others of its file."""
    bound: dict[str, str] = {}  # a name of the file, and what it was imported as
    defined: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        bound.update(_bound(statement))
        for name in _names(statement):
            defined.setdefault(name, []).append(statement)
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [function]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for statement in defined.get(name, ()):
            inner = {**bound, **{key: value for node in ast.walk(statement) for key, value in _bound(node).items()}}
            for node in ast.walk(statement):
                found.update(_bound(node).values())
                if isinstance(node, ast.Import):
                    found.update(alias.name for alias in node.names)
                if isinstance(node, ast.Name):
                    waiting.append(node.id)
                    found.update({inner[node.id]} if node.id in inner else ())
                if isinstance(node, ast.Attribute):
                    found.update(_dotted(node, inner))
    return found


def _bound(node: ast.AST) -> dict[str, str]:
    """The names that an import binds, each with the dotted name of what it is bound to."""
    if isinstance(node, ast.Import):
        first = {alias.name.partition(".")[0]: alias.name.partition(".")[0] for alias in node.names if not alias.asname}
        return {**first, **{alias.asname: alias.name for alias in node.names if alias.asname}}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return {}


def _names(statement: ast.stmt) -> Iterator[str]:
    """The names that a top-level statement gives a value to."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif not isinstance(statement, (ast.Import, ast.ImportFrom)):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _dotted(node: ast.expr, bound: dict[str, str]) -> set[str]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and node.id in bound:
        return {".".join([bound[node.id], *reversed(parts)])}
    return set()
