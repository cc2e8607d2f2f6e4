"""Wrong answers (mutants): how they are written down, and how one is applied to the reference.

``tests/mutants/<chapter>/<exercise>.toml`` has one table for each mutant::

    [one_too_early]
    says = "is right (error"              # words that the grader's message has to contain
    status = "error"                      # the state to reach; `failed` if left out
    find = "nodes[right].name"
    with = "nodes[max(right - 1, 0)].name"

``edits = [[find, with], ...]`` makes several changes. Every ``find`` occurs exactly once in the reference: the exercise's file in
``solutions/`` without its ANSWER and END lines. A Python file holds all exercises of a chapter, so there only the exercise's own
part is searched: the function with its name, and its ANSWER blocks.

``code`` is for another algorithm. Python code is appended to the reference, where its functions replace those of the same name; for
C++ it is the whole file.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from oplab.course import stubs
from oplab.course.manifest import Course, Exercise
from oplab.grading.results import STATES

REJECTED = tuple(state for state in STATES if state not in ("passed", "todo", "grader_error"))
_FORMS = {"find": {"find", "with"}, "edits": {"edits"}, "code": {"code"}}
_KEYS = {"says", "status"}.union(*_FORMS.values())
_MARK = re.compile(r"^\s*(?:#|//) (?:ANSWER (?P<id>c\d\d\.[a-z0-9_]+)(?:: .+)?|END)$")
_CPP_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|\w+|[^\w\s]', re.DOTALL
)


@dataclass(frozen=True)
class Mutant:
    """A wrong answer.

    Attributes:
        says: words that the message has to contain.
        status: the state that it has to reach, one of :data:`REJECTED`.
        text: the whole file that is graded.
        code: the table's ``code``; empty if the mutant is made of edits.
    """

    exercise: Exercise
    name: str
    says: str
    status: str
    text: str
    code: str


@dataclass(frozen=True)
class Problem:
    """Why a table is not a mutant, as a sentence. ``mutant`` is the table's name, empty where the whole file is meant."""

    mutant: str
    sentence: str


class _Malformed(ValueError):
    """What is wrong with a table, as a sentence."""


def file_of(course: Course, exercise: Exercise) -> Path:
    """Where the mutants of an exercise are."""
    return course.root / "tests" / "mutants" / f"c{exercise.chapter}" / f"{exercise.name}.toml"


def read(path: Path, exercise: Exercise, solution: str) -> tuple[list[Mutant], list[Problem]]:
    """The mutants of an exercise in the order of the file, and what is wrong with the other tables. A missing file has none.

    Args:
        path: the TOML file.
        solution: text of the exercise's file in ``solutions/``.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [], []
    except (OSError, UnicodeDecodeError) as error:
        return [], [Problem("", f"it cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}.")]
    except tomllib.TOMLDecodeError as error:
        return [], [Problem("", f"it is not valid TOML: {error}.")]
    mutants, problems = [], []
    for name, table in tables.items():
        try:
            mutants.append(_mutant(exercise, name, table, solution))
        except _Malformed as error:
            problems.append(Problem(name, str(error)))
    return mutants, problems


def apply(edits: list[tuple[str, str]], exercise: Exercise, solution: str) -> str:
    """The reference with edits, all of them located in the reference as it is.

    Raises:
        ValueError: a text to find does not occur exactly once, two edits overlap, or one changes nothing; the message is a sentence.
    """
    text, spans = _reference(exercise, solution)
    places = []
    for find, replacement in edits:
        if find == replacement:
            raise _Malformed(f"the edit of {find!r} changes nothing.")
        hits = [hit for first, last in spans for hit in _occurrences(text, find, first, last)]
        if len(hits) != 1:
            part = f"the part of {exercise.id} in " if exercise.kind == "python" else ""
            raise _Malformed(
                f"{find!r} occurs {len(hits)} times in {part}solutions/{exercise.file}; it has to occur exactly once."
            )
        places.append((hits[0], hits[0] + len(find), find, replacement))
    places.sort()
    for (_, end, first, _), (begin, _, second, _) in zip(places, places[1:], strict=False):
        if begin < end:
            raise _Malformed(f"the edits of {first!r} and {second!r} overlap.")
    for begin, end, _, replacement in reversed(places):
        text = text[:begin] + replacement + text[end:]
    return text


def repeated(mutants: list[Mutant], solution: str) -> Iterator[Problem]:
    """Mutants of one exercise whose code is the reference's or an earlier mutant's; layout, comments and docstrings do not count."""
    if not mutants:
        return
    exercise = mutants[0].exercise
    known = {_essence(exercise, _reference(exercise, solution)[0]): "that of the reference"}
    for mutant in mutants:
        whose = known.setdefault(_essence(exercise, mutant.text), f"that of {mutant.name}")
        if whose != f"that of {mutant.name}":
            yield Problem(mutant.name, f"its code is {whose}, apart from layout and comments.")


def _mutant(exercise: Exercise, name: str, table: Any, solution: str) -> Mutant:
    if not isinstance(table, dict):
        raise _Malformed("it is not a table: each mutant begins with its name in brackets.")
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise _Malformed("a mutant's name has lower-case letters, digits and underscores.")
    for key in table:
        if key not in _KEYS:
            raise _Malformed(f"it has the unknown key {key!r}; known are {', '.join(sorted(_KEYS))}.")
    for key in _KEYS - {"edits"}:
        if not isinstance(table.get(key, ""), str):
            raise _Malformed(f"{key} has to be a text.")
    if not table.get("says", "").strip():
        raise _Malformed("says is missing: words that the message has to contain.")
    status = table.get("status", "failed")
    if status not in REJECTED:
        raise _Malformed(f"status {status!r} is no way to be rejected; it can be {', '.join(REJECTED)}.")
    form = _FORMS.get(next((key for key in _FORMS if key in table), ""), set())
    if not form or set(table) - {"says", "status"} != form or table.get("code") == "":
        raise _Malformed("it needs exactly one of: find and with; edits; code.")
    if form == {"code"}:
        whole = table["code"]
        if exercise.kind == "python":
            whole = f"{_reference(exercise, solution)[0]}\n\n{whole}"
        return Mutant(exercise, name, table["says"], status, whole, table["code"])
    edits = _edits(table)
    return Mutant(exercise, name, table["says"], status, apply(edits, exercise, solution), "")


def _edits(table: dict[str, Any]) -> list[tuple[str, str]]:
    edits = table.get("edits", [[table.get("find"), table.get("with")]])
    pairs = isinstance(edits, list) and all(isinstance(edit, list) and len(edit) == 2 for edit in edits)
    if not pairs or not edits or not all(isinstance(text, str) for edit in edits for text in edit):
        raise _Malformed("edits has to be a list of pairs of texts: [[find, with], ...].")
    if not all(find for find, _ in edits):
        raise _Malformed("a text to find is empty.")
    return [(find, replacement) for find, replacement in edits]


@cache  # each mutant of an exercise asks for it
def _reference(exercise: Exercise, solution: str) -> tuple[str, list[tuple[int, int]]]:
    """The solution without its ANSWER and END lines, and the spans of characters in it that belong to the exercise."""
    function = None
    if exercise.kind == "python":
        try:
            function = stubs.function_span(solution, exercise.name)
        except SyntaxError:
            pass  # a finding about the solution
    text, block = "", None
    spans: list[tuple[int, int]] = []
    for number, line in enumerate(solution.splitlines(keepends=True), start=1):
        mark = _MARK.match(line)
        if mark:  # a goal often repeats the code
            block = mark["id"]
            continue
        begin, text = len(text), text + line
        inside = function is not None and function[0] <= number <= function[1]
        if inside or block == exercise.id or exercise.kind != "python":
            joined = spans.pop()[0] if spans and spans[-1][1] == begin else begin
            spans.append((joined, len(text)))
    return text, spans


def _occurrences(text: str, find: str, begin: int, end: int) -> Iterator[int]:
    """Where ``find`` is in ``text[begin:end]``, occurrences that overlap included."""
    while (begin := text.find(find, begin, end)) >= 0:
        yield begin
        begin += 1


def _essence(exercise: Exercise, text: str) -> Any:
    """What two texts have in common that do the same in other words: a value that can be compared and hashed."""
    if exercise.kind != "python":
        return tuple(found[0] for found in _CPP_TOKEN.finditer(text) if not found["comment"])
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    lines = text.splitlines()
    others: dict[str, None] = {}
    defined: dict[str, str] = {}
    for node in tree.body:
        first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
        name, dump = _statement("\n".join(lines[first - 1 : node.end_lineno]))
        if name:
            defined[name] = dump  # the last definition is in effect
        else:
            others[dump] = None
    return tuple(others), tuple(sorted(defined.items()))


@cache  # mutants of a chapter share most of their statements
def _statement(source: str) -> tuple[str, str]:
    """A top-level statement: the name that it defines, if it is a function or a class, and what it does."""
    node = ast.parse(source).body[0]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name, ast.dump(_bare(node))
    return "", ast.dump(node)


def _bare(definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
    """A top-level definition without docstrings and without the annotations of its signature, which ``code`` leaves out.

    Annotations further inside stay: an exporter or a scripting compiler may read them.
    """
    if not isinstance(definition, ast.ClassDef):
        definition.returns = None
        for part in ast.walk(definition.args):
            if isinstance(part, ast.arg):
                part.annotation = None
    for node in ast.walk(definition):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return definition
