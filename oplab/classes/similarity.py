"""Which answers of a class are alike, after the stub and the reference are subtracted.

Answers are compared exercise by exercise, as tokens without names, comments and layout (:mod:`oplab.classes.similarity_tokens`), by
the fingerprints that they share (:mod:`oplab.classes.similarity_prints`). What the stub or the reference contains does not count,
and what many learners have counts less. Two numbers say how alike a pair is: how many tokens, and which share of the answer.

A pair is a reason to look at two answers. It does not tell who wrote what, and two learners may have had the same idea.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oplab.classes.records import Grades, load_answer
from oplab.classes.similarity_prints import GRAM, WINDOW, Tile, canonical, covered, grams, tiles, winnow
from oplab.classes.similarity_tokens import Token, tokens
from oplab.course import answers as course_answers
from oplab.course.manifest import Course, Exercise
from oplab.course.parsing import parse
from oplab.files import write_atomically
from oplab.reports import html

THRESHOLD = 0.7  # the share of the smaller answer
LEAST = 30  # tokens; shorter passages are alike by chance
NEAR = 0.8  # the share of an answer that the reference contains, from which it is called near the reference
MOST = 300  # pairs on the page: with their code, more than a browser shows well
_RING = 4  # a passage that so many other learners have still counts fully
_SMALL = 8  # in a smaller class nothing is common
_COMMON = 0.5  # what this share of the class has counts nothing
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Given:
    """What every learner may have: the texts of the stub, and of the solution, which is empty if it is not to be subtracted."""

    stub: str
    reference: str = ""


@dataclass(frozen=True)
class Mark:
    """A passage that a pair has in common: from a character of the side's text to another. ``number`` is equal on both sides."""

    number: int
    begin: int
    end: int


@dataclass(frozen=True)
class Side:
    """One answer of a pair.

    Attributes:
        logins: the learners who have it, sorted: equal answers are compared once.
        text: the first learner's text, the part that answers the exercise.
        marks: what it has in common with the other side, in the order of the text.
        share: how much of what is neither in the stub nor in the reference, 0 to 1.
    """

    logins: tuple[str, ...]
    text: str
    marks: tuple[Mark, ...]
    share: float


@dataclass(frozen=True)
class Pair:
    """Two answers to one exercise that are alike.

    Attributes:
        exercise: its id.
        sides: the two answers.
        score: the share of the smaller answer, 0 to 1.
        evidence: the tokens in common; those that many learners have count less.
    """

    exercise: str
    sides: tuple[Side, Side]
    score: float
    evidence: float


@dataclass(frozen=True)
class Group:
    """Learners whose answer is equal but for names, comments, layout and constants, or the reference for the most part.

    Attributes:
        exercise: its id.
        logins: the learners, sorted.
        text: the first learner's text.
        size: how many tokens are equal and not given, or are in the reference and not in the stub.
        share: 1 where the texts are equal, too, apart from white space; or how much of what is not in the stub is in the reference.
    """

    exercise: str
    logins: tuple[str, ...]
    text: str
    size: int
    share: float


@dataclass(frozen=True)
class Report:
    """What is alike in a class.

    Attributes:
        pairs: the most alike first.
        equal: the largest first.
        near: the longest first.
        exercises: how many exercises were compared.
        answers: how many answers were compared.
        short: how many had too few tokens to compare after the subtraction.
    """

    pairs: tuple[Pair, ...]
    equal: tuple[Group, ...] = ()
    near: tuple[Group, ...] = ()
    exercises: int = 0
    answers: int = 0
    short: int = 0

    def together(self) -> list[tuple[tuple[str, str], int]]:
        """Pairs of learners who are alike in several exercises, with the number of exercises, most first."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for pair in self.pairs:
            for one in pair.sides[0].logins:
                for other in pair.sides[1].logins:
                    found[tuple(sorted((one, other)))].add(pair.exercise)
        for group in self.equal:
            for i, one in enumerate(group.logins):
                for other in group.logins[i + 1 :]:
                    found[one, other].add(group.exercise)
        several = [(logins, len(exercises)) for logins, exercises in found.items() if len(exercises) > 1]
        return sorted(several, key=lambda entry: (-entry[1], entry[0]))


@dataclass
class _Answer:
    """Equal answers, as tokens. ``free`` is what counts of them: what is not given."""

    logins: list[str]
    texts: list[str]
    tokens: list[Token]
    grams: list[int] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)
    prints: dict[int, list[int]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(self.free)


def answers_of(grades: Grades, exercises: Iterable[Exercise]) -> dict[str, dict[str, str]]:
    """By exercise id and login, the answers in each learner's newest submission as GRADES keeps them."""
    load = functools.lru_cache(None)(functools.partial(load_answer, grades.folder))
    newest = {login: handed_in[-1].tasks for login, handed_in in grades.submissions.items() if handed_in}
    found = {
        one.id: {login: load(tasks[one.id].answer) for login, tasks in newest.items() if one.id in tasks}
        for one in exercises
    }
    return {id: texts for id, texts in found.items() if texts}


def given(course: Course, exercise: Exercise) -> Given:
    """The stub and the reference of an exercise."""
    return Given(course_answers.stub_text(course, exercise), course_answers.reference_text(course, exercise))


def compare(
    sources: Mapping[str, Mapping[str, str]],
    exercises: Mapping[str, Exercise],
    known: Mapping[str, Given],
    *,
    threshold: float = THRESHOLD,
    least: float = LEAST,
) -> Report:
    """Find the answers that are alike.

    Args:
        sources: for each exercise id, the text of each learner's file by login. Of a Python file only what answers the exercise counts.
        exercises: by id, those of ``sources``.
        known: what is subtracted, by exercise id.
        threshold: the score from which a pair is reported, 0 to 1.
        least: the evidence from which it is reported, in tokens.
    """
    reports = []
    for id, texts in sources.items():
        own = {text: own_part(text, exercises[id]) for text in set(texts.values())}
        parts = {login: own[text] for login, text in texts.items()}
        language = "python" if exercises[id].kind == "python" else "cpp"
        reports.append(compare_parts(id, parts, language, known[id], threshold=threshold, least=least))
    pairs = [pair for report in reports for pair in report.pairs]
    equal, near = ([group for report in reports for group in getattr(report, kind)] for kind in ("equal", "near"))
    for groups in (equal, near):
        groups.sort(key=lambda group: (-group.size, group.exercise, group.logins))
    pairs.sort(key=lambda pair: (-pair.score * pair.evidence, pair.exercise, *(side.logins for side in pair.sides)))
    counts = (sum(getattr(report, kind) for report in reports) for kind in ("exercises", "answers", "short"))
    return Report(tuple(pairs), tuple(equal), tuple(near), *counts)


def compare_parts(
    id: str,
    parts: Mapping[str, str],
    language: str,
    given: Given,
    *,
    threshold: float = THRESHOLD,
    least: float = LEAST,
) -> Report:
    """Find the answers to the exercise ``id`` that are alike; the lists are not sorted.

    ``parts`` has what of each learner's file answers the exercise, by login. The rest is as in :func:`compare`.
    """
    stub, reference = _grams(given.stub, language), _grams(given.reference, language)
    found = _answers(parts, language, stub | reference)
    long = [answer for answer in found if answer.size >= least]
    return Report(
        tuple(_pairs(id, long, threshold, least)),
        tuple(_equal(id, answer) for answer in long if len(answer.logins) > 1),
        tuple(_near(id, found, stub, reference, least)),
        1,
        sum(len(answer.logins) for answer in found),
        sum(len(answer.logins) for answer in found if answer.size < least),
    )


def own_part(text: str, exercise: Exercise) -> str:
    """The exercise's function with the definitions and imports of the file that it uses, directly or not, in the order of the file.

    Of several definitions of one name the last one counts, as in Python. A C++ file is one answer, and a text that is not valid
    Python is taken whole. Empty if the file has no such function.
    """
    try:
        body = parse(text).body if exercise.kind == "python" else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = None
    if body is None:
        return text
    where: dict[str, list[ast.stmt]] = {}
    for node in body:
        for name in _bound(node):
            where[name] = [node] if isinstance(node, _Definition) else [*where.get(name, ()), node]
    if not any(isinstance(node, _Definition) for node in where.get(exercise.name, ())):
        return ""
    waiting, known = [exercise.name], {exercise.name}
    chosen: set[ast.stmt] = set()
    while waiting:
        for node in where[waiting.pop()]:
            chosen.add(node)
            new = ({part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & where.keys()) - known
            known |= new
            waiting += new
    lines, parts = text.split("\n"), []
    for node in sorted(chosen, key=lambda node: node.lineno):
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        end = "\n" if isinstance(node, (ast.Import, ast.ImportFrom)) else "\n\n"
        parts.append("\n".join(lines[first - 1 : node.end_lineno]) + end)
    return "".join(parts)


def _bound(node: ast.stmt) -> set[str]:
    """The names that a statement at the top level binds."""
    if isinstance(node, _Definition):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


@functools.lru_cache(maxsize=4096)  # a stub is part of several comparisons
def _tokens(text: str, language: str) -> list[Token]:
    return tokens(text, language)


@functools.lru_cache(maxsize=256)
def _grams(text: str, language: str) -> frozenset[int]:
    return frozenset(grams(_tokens(text, language)))


def _answers(parts: Mapping[str, str], language: str, base: frozenset[int]) -> list[_Answer]:
    """The different answers with what is given marked; those without a token are left out."""
    answers: dict[tuple[str, ...], _Answer] = {}
    for login in sorted(parts):
        found = _tokens(parts[login], language)
        if found:
            answer = answers.setdefault(canonical(found), _Answer([], [], found))
            answer.logins.append(login)
            answer.texts.append(parts[login])
    for answer in answers.values():
        answer.grams = grams(answer.tokens)
        answer.free = [not inside for inside in _covered(answer, base)]
        answer.prints = {value: places for value, places in winnow(answer.grams).items() if value not in base}
    return list(answers.values())


def _covered(answer: _Answer, base: frozenset[int]) -> list[bool]:
    return covered(len(answer.tokens), [i for i, value in enumerate(answer.grams) if value in base])


def _near(
    id: str, found: Iterable[_Answer], stub: frozenset[int], reference: frozenset[int], least: float
) -> Iterable[Group]:
    for answer in found:
        in_stub, in_reference = _covered(answer, stub), _covered(answer, reference)
        own = in_stub.count(False)
        copied = sum(there and not here for here, there in zip(in_stub, in_reference, strict=True))
        if copied >= least and copied >= NEAR * own:
            yield Group(id, tuple(answer.logins), answer.texts[0], copied, copied / own)


def _equal(id: str, answer: _Answer) -> Group:
    letter = len({"".join(text.split()) for text in answer.texts}) == 1
    return Group(id, tuple(answer.logins), answer.texts[0], answer.size, float(letter))


def _pairs(id: str, found: list[_Answer], threshold: float, least: float) -> Iterable[Pair]:
    holders: Counter[int] = Counter()
    where: dict[int, list[int]] = defaultdict(list)
    for number, answer in enumerate(found):
        for value in answer.prints:
            holders[value] += len(answer.logins)
            where[value].append(number)
    learners = sum(len(answer.logins) for answer in found)
    common = {value for value, count in holders.items() if learners >= _SMALL and count > _COMMON * learners}
    candidates: Counter[tuple[int, int]] = Counter()
    for value, numbers in where.items():
        if value not in common:
            for i, one in enumerate(numbers):
                for other in numbers[i + 1 :]:
                    candidates[one, other] += min(len(found[one].prints[value]), len(found[other].prints[value]))
    for (one, other), count in candidates.items():
        if count * (GRAM + 2 * WINDOW) >= least:  # they cannot cover more
            pair = _pair(id, found[one], found[other], holders, common)
            if pair.score >= threshold and pair.evidence >= least:
                yield pair


def _pair(id: str, first: _Answer, second: _Answer, holders: Mapping[int, int], common: set[int]) -> Pair:
    two = len(first.logins) + len(second.logins)

    def weight(value: int) -> float:
        return 0.0 if value in common else min(1.0, _RING / max(holders[value] - two, 1))

    both = [value for value in first.prints if value in second.prints]
    runs = tiles(first.grams, second.grams, [(first.prints[value], second.prints[value]) for value in both])
    places = [
        {place for run in runs for place in range(run.first, run.first + run.length)},
        {place for run in runs for place in range(run.second, run.second + run.length)},
    ]
    sums, shares = [], []
    for answer, inside in zip((first, second), places, strict=True):
        whole = _weights(answer, answer.prints, weight)
        alike = _weights(answer, both, weight, whole)
        sums.append(sum(alike[place] for place in inside))
        shares.append(min(1.0, sums[-1] / total) if (total := sum(whole)) else 0.0)
    marks = [_marks(answer, runs, side) for side, answer in enumerate((first, second))]
    sides = [
        Side(tuple(answer.logins), answer.texts[0], mark, share)
        for answer, mark, share in zip((first, second), marks, shares, strict=True)
    ]
    return Pair(id, (sides[0], sides[1]), max(shares), min(sums))


def _weights(
    answer: _Answer, values: Iterable[int], weight: Callable[[int], float], otherwise: list[float] | None = None
) -> list[float]:
    """What each token counts: as much as the rarest of these fingerprints that contain it, or as in ``otherwise``."""
    found: list[float | None] = [None] * len(answer.tokens)
    for value in values:
        worth = weight(value)
        for begin in answer.prints[value]:
            for place in range(begin, begin + GRAM):
                found[place] = max(worth, found[place] or 0.0)
    rest = otherwise or [1.0] * len(found)
    return [
        (rest[i] if worth is None else worth) if free else 0.0
        for i, (worth, free) in enumerate(zip(found, answer.free, strict=True))
    ]


def _marks(answer: _Answer, runs: list[Tile], side: int) -> tuple[Mark, ...]:
    """The passages of one side, without those of which everything is given."""
    found = []
    for number, run in enumerate(runs, start=1):
        begin = run.second if side else run.first
        if any(answer.free[begin : begin + run.length]):
            found.append(Mark(number, answer.tokens[begin].begin, answer.tokens[begin + run.length - 1].end))
    return tuple(sorted(found, key=lambda mark: mark.begin))


def write(report: Report, path: Path) -> None:
    """Write an HTML page that needs nothing else: pairs with their code side by side, learners alike in several exercises, equal answers,
    those near the reference. Everything from learners is escaped, and the page's content security policy forbids scripts and every request.
    """
    page = html.template("oplab.classes", "similarity.html.j2").render(
        report=report,
        pairs=report.pairs[:MOST],
        left_out=max(len(report.pairs) - MOST, 0),
        together=report.together()[:MOST],
        percent=lambda share: f"{int(share * 100)} %",
        cut=_cut,
    )
    write_atomically(path, page.encode("utf-8", "replace"))


def _cut(side: Side) -> list[tuple[int, str]]:
    """The text in parts, each with the number of the passage that it is, or 0."""
    parts, place = [], 0
    for mark in side.marks:
        parts += [(0, side.text[place : mark.begin]), (mark.number, side.text[mark.begin : mark.end])]
        place = mark.end
    return [part for part in (*parts, (0, side.text[place:].rstrip("\n"))) if part[1]]
