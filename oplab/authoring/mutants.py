"""Wrong answers (mutants) and other right answers (alternatives): how they are written down and applied to the reference.

``tests/mutants/<chapter>/<exercise>.toml`` has one table for each mutant, ``tests/alternatives/<chapter>/<exercise>.toml`` one for
each alternative::

    [one_too_early]
    says = "is right (error"              # words that the grader's message has to contain; only for mutants
    status = "error"                      # the state to reach, `failed` if left out; only for mutants
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
from oplab.course.manifest import NUMBER, Course, Exercise
from oplab.course.parsing import parse
from oplab.grading.results import STATES

REJECTED = tuple(state for state in STATES if state not in ("passed", "todo", "grader_error"))
FOLDERS = {"mutant": "mutants", "alternative": "alternatives"}  # each kind's folder in tests/
_FORMS = {"find": {"find", "with"}, "edits": {"edits"}, "code": {"code"}}
_VERDICT = {"mutant": {"says", "status"}, "alternative": set()}  # the keys besides those of a form
_MARK = re.compile(rf"^\s*(?:#|//) (?:ANSWER (?P<id>c{NUMBER}\.[a-z0-9_]+)(?:: .+)?|END)$")
_CPP_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|\w+|[^\w\s]', re.DOTALL
)


@dataclass(frozen=True)
class KnownAnswer:
    """A mutant or an alternative.

    Attributes:
        kind: ``mutant`` or ``alternative``.
        name: its table's name.
        text: the whole file that is graded.
        code: the table's ``code``; empty if the answer is made of edits.
        status: the state that it has to reach: one of :data:`REJECTED`, ``passed`` for an alternative.
        says: words that the message has to contain; empty for an alternative.
    """

    exercise: Exercise
    kind: str
    name: str
    text: str
    code: str = ""
    status: str = "passed"
    says: str = ""


@dataclass(frozen=True)
class Problem:
    """Why a table is not an answer of its kind, as a sentence. ``name`` is the table's, empty where the whole file is meant."""

    kind: str
    name: str
    sentence: str


class _Malformed(ValueError):
    """What is wrong with a table, as a sentence."""


def file_of(course: Course, exercise: Exercise, kind: str) -> Path:
    """Where the mutants or the alternatives of an exercise are."""
    return course.root / "tests" / FOLDERS[kind] / f"c{exercise.chapter}" / f"{exercise.name}.toml"


def read(course: Course, exercise: Exercise, kind: str, solution: str) -> tuple[list[KnownAnswer], list[Problem]]:
    """The mutants or the alternatives of an exercise in the order of the file, and what is wrong with the other tables.

    A missing file has none.

    Args:
        kind: ``mutant`` or ``alternative``.
    """
    try:
        tables = tomllib.loads(file_of(course, exercise, kind).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [], []
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        return [], [Problem(kind, "", f"it cannot be read: {why}.")]
    except tomllib.TOMLDecodeError as error:
        return [], [Problem(kind, "", f"it is not valid TOML: {error}.")]
    answers, problems = [], []
    for name, table in tables.items():
        try:
            answers.append(_answer(exercise, kind, name, table, solution))
        except _Malformed as error:
            problems.append(Problem(kind, name, str(error)))
    return answers, problems


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


def repeated(answers: list[KnownAnswer], solution: str) -> Iterator[Problem]:
    """Answers of one exercise whose code is the reference's or an earlier answer's; layout, comments and docstrings do not count."""
    if not answers:
        return
    exercise = answers[0].exercise
    known = {_essence(exercise, _reference(exercise, solution)[0]): "the reference"}
    for answer in answers:
        essence = _essence(exercise, answer.text)
        if essence in known:
            yield Problem(
                answer.kind, answer.name, f"its code is that of {known[essence]}, apart from layout and comments."
            )
        else:
            known[essence] = f"the {answer.kind} {answer.name}"


def _answer(exercise: Exercise, kind: str, name: str, table: Any, solution: str) -> KnownAnswer:
    if not isinstance(table, dict):
        raise _Malformed("it is not a table: each answer begins with its name in brackets.")
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise _Malformed("an answer's name has lower-case letters, digits and underscores.")
    keys = _VERDICT[kind].union(*_FORMS.values())
    for key in table:
        if key not in keys:
            raise _Malformed(f"it has the unknown key {key!r}; known are {', '.join(sorted(keys))}.")
    for key in keys - {"edits"}:
        if not isinstance(table.get(key, ""), str):
            raise _Malformed(f"{key} has to be a text.")
    verdict = {}
    if kind == "mutant":
        verdict = {"says": table.get("says", ""), "status": table.get("status", "failed")}
        if not verdict["says"].strip():
            raise _Malformed("says is missing: words that the message has to contain.")
        if verdict["status"] not in REJECTED:
            raise _Malformed(
                f"status {verdict['status']!r} is not a way to be rejected; it can be {', '.join(REJECTED)}."
            )
    form = _FORMS.get(next((key for key in _FORMS if key in table), ""), set())
    if not form or set(table) - _VERDICT[kind] != form or table.get("code") == "":
        raise _Malformed("it needs exactly one of: find and with; edits; code.")
    if form == {"code"}:
        text = code = table["code"]
        if exercise.kind == "python":
            text = f"{_reference(exercise, solution)[0]}\n\n{code}"
    else:
        text, code = apply(_edits(table), exercise, solution), ""
    return KnownAnswer(exercise, kind, name, text, code, **verdict)


def _edits(table: dict[str, Any]) -> list[tuple[str, str]]:
    edits = table.get("edits", [[table.get("find"), table.get("with")]])
    pairs = isinstance(edits, list) and all(isinstance(edit, list) and len(edit) == 2 for edit in edits)
    if not pairs or not edits or not all(isinstance(text, str) for edit in edits for text in edit):
        raise _Malformed("edits has to be a list of pairs of strings: [[find, with], ...].")
    if not all(find for find, _ in edits):
        raise _Malformed("a text to find is empty.")
    return [(find, replacement) for find, replacement in edits]


@cache  # each answer to an exercise asks for it
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
        tree = parse(text)
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


@cache  # the answers of a chapter share most of their statements
def _statement(source: str) -> tuple[str, str]:
    """A top-level statement: the name that it defines, if it is a function or a class, and what it does."""
    node = parse(source).body[0]
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
