"""The answer to one exercise in a submitted file: what is graded, hashed and kept.

A Python file holds all exercises of a chapter. The answer to one of them is the file with the other exercises' functions blanked out,
line by line so that messages keep their line numbers. A function stays where leaving it out could be noticed: where its name occurs in
the rest of the file or in the exercise's check, where defining it runs code, or where the file looks at its own names. So the change
of one function gives one exercise a new answer, and what is graded is exactly what was hashed.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from oplab.classes.records import sha256
from oplab.course import stubs
from oplab.course.manifest import Course, Exercise
from oplab.course.parsing import parse
from oplab.grading import outcomes
from oplab.grading.results import Outcome

# A file that uses one of these may look at any name that it defines.
_LOOKS_AROUND = {"globals", "locals", "vars", "eval", "exec", "dir", "__dict__", "modules", "inspect", "importlib"}

_MISSING = "is missing from the submission."


def is_missing(outcome: Outcome) -> bool:
    """Whether an outcome says that there was no file to grade."""
    return outcome.status == "error" and outcome.message.endswith(_MISSING)


@dataclass(frozen=True)
class Unreadable:
    """In place of a submitted file's text: why it cannot be read, as the end of a sentence without its full stop."""

    reason: str


@dataclass(frozen=True)
class Answer:
    """What a submission has for one exercise.

    Attributes:
        sha: SHA-256 of :attr:`text`.
        text: the source that is graded.
        settled: the outcome where nothing has to run for it: an unchanged stub, or no file.
    """

    sha: str
    text: str
    settled: Outcome | None = None


class Answers:
    """Takes the answers to the exercises that are graded out of submitted files. Equal files are taken apart once."""

    def __init__(self, course: Course, exercises: Iterable[Exercise]):
        self.course = course
        self._by_file: dict[str, list[Exercise]] = {}
        for exercise in exercises:
            self._by_file.setdefault(exercise.file, []).append(exercise)
        self._of_file = functools.lru_cache(maxsize=4096)(self._take_apart)

    def of(self, files: dict[str, str | Unreadable]) -> dict[str, Answer]:
        """The answers of one submission, by exercise id.

        Args:
            files: the submission's files, by their names in the course, as far as it has them: the text, or why there is none.
        """
        found: dict[str, Answer] = {}
        for file in self._by_file:
            found.update(self._of_file(file, files.get(file)))
        return found

    def _take_apart(self, file: str, text: str | Unreadable | None) -> dict[str, Answer]:
        return {exercise.id: self._answer(exercise, text) for exercise in self._by_file[file]}

    def _answer(self, exercise: Exercise, text: str | Unreadable | None) -> Answer:
        if text is None:
            return _without_text(exercise, f"The file {exercise.file} {_MISSING}")
        if isinstance(text, Unreadable):
            return _without_text(exercise, f"{exercise.file} cannot be read: {text.reason}.")
        stub = _stub(self.course, exercise)
        if exercise.kind != "python":
            untouched = stub is not None and stubs.is_untouched(text, stub, None)
            return Answer(sha256(stub), stub, outcomes.todo(exercise)) if untouched else Answer(sha256(text), text)
        tree = _parsed(text)
        if tree is None:
            return Answer(sha256(text), text)
        if stub is not None and stubs.is_untouched(text, stub, exercise.name):
            original = stubs.function_text(stub, exercise.name) or ""
            return Answer(sha256(original), original, outcomes.todo(exercise))
        names = [other.name for other in self.course.chapter(exercise.chapter).exercises if other.kind == "python"]
        reduced = _without_others(text, tree, exercise.name, names, _asked_for(self.course, exercise))
        return Answer(sha256(reduced), reduced)


def _without_text(exercise: Exercise, message: str) -> Answer:
    return Answer(sha256(""), "", outcomes.without_points(exercise, "error", message))


def _without_others(text: str, tree: ast.Module, own: str, names: Iterable[str], asked_for: frozenset[str]) -> str:
    """``text`` with blank lines in place of the functions among ``names`` that ``own`` cannot notice."""
    definitions: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            definitions.setdefault(statement.name, []).append(statement)
    bound = _bound(tree)
    candidates = [
        name for name in names if name != own and name not in asked_for and len(definitions.get(name, ())) == 1
    ]
    others = {name: definitions[name][0] for name in candidates if _is_inert(definitions[name][0], bound)}
    # A kept function may use another, which may use a third: what is used is kept, until nothing more is.
    kept = [statement for statement in tree.body if statement not in others.values()]
    seen: set[str] = set()
    while kept:
        seen |= _mentioned(kept)
        if seen & _LOOKS_AROUND:
            return text
        kept = [others.pop(name) for name in list(others) if name in seen]
    lines = text.split("\n")
    for statement in others.values():
        for number in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
            lines[number] = ""
    return "\n".join(lines)


def _is_inert(statement: ast.stmt, bound: frozenset[str]) -> bool:
    """Whether defining it runs nothing that can fail: a plain function, constants as defaults, known names in its annotations."""
    if not isinstance(statement, ast.FunctionDef) or statement.decorator_list or getattr(statement, "type_params", ()):
        return False
    arguments = statement.args
    defaults = [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]
    if not all(
        isinstance(node, (ast.Constant, ast.UnaryOp, ast.unaryop)) for part in defaults for node in ast.walk(part)
    ):
        return False
    for node in (*ast.walk(arguments), *(ast.walk(statement.returns) if statement.returns else ())):
        if isinstance(node, (ast.Call, ast.NamedExpr, ast.Await)) or (
            isinstance(node, ast.Name) and node.id not in bound
        ):
            return False
    return True


def _bound(tree: ast.Module) -> frozenset[str]:
    """The names that the file's imports, definitions and assignments bind, and Python's own."""
    found = set(dir(builtins))
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            found.update(alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.Assign):
            found.update(
                node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)
            )
    return frozenset(found)


def _mentioned(statements: Iterable[ast.stmt]) -> set[str]:
    """Names, attributes, imported names and texts: whatever could lead to a function of the file."""
    found: set[str] = set()
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.alias):
                found.update((node.name.partition(".")[0], node.name.rpartition(".")[2], node.asname or ""))
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def _parsed(text: str) -> ast.Module | None:
    """The syntax tree; None for a text that is not Python."""
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(maxsize=256)
def _stub(course: Course, exercise: Exercise) -> str | None:
    """The stub of the exercise's file; None where the course has no solutions to make it from."""
    try:
        solution = course.reference_file(exercise).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return stubs.make_stub(solution, exercise.file)


@functools.lru_cache(maxsize=256)
def _asked_for(course: Course, exercise: Exercise) -> frozenset[str]:
    """What the exercise's collect half can ask the learner's module for: the texts in it, and in what it uses of its file."""
    tree = _checks(course.checks_file(exercise))
    parts: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            parts.setdefault(statement.name, []).append(statement)
        else:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    parts.setdefault(node.id, []).append(statement)
    found: set[str] = set()
    used: set[str] = set()
    waiting = [f"collect_{exercise.name}"]
    while waiting:
        name = waiting.pop()
        if name in used:
            continue
        used.add(name)
        mentioned = _mentioned(parts.get(name, ()))
        found |= mentioned
        waiting.extend(mentioned)
    return frozenset(found)


@functools.lru_cache(maxsize=32)
def _checks(path: Path) -> ast.Module:
    return parse(path.read_text(encoding="utf-8"))
