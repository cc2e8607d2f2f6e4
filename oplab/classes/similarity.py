"""Which answers of a class are alike, after the stub and the reference are subtracted.

Answers are compared exercise by exercise, as tokens without names, comments and layout (:mod:`oplab.classes.similarity_tokens`), by
the fingerprints that they share (:mod:`oplab.classes.similarity_prints`). What the stub or the reference contains does not count,
and what many learners have counts less. Two numbers say how alike a pair is: how many tokens, and which share of the answer.

A pair is a reason to look at two answers. It does not tell who wrote what, and two learners may have had the same idea.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from oplab.classes.similarity_parts import own_part
from oplab.classes.similarity_prints import GRAM, WINDOW, Tile, canonical, covered, grams, shared, tiles, winnow
from oplab.classes.similarity_tokens import Token, tokens
from oplab.course import answers as course_answers
from oplab.course.manifest import Course, Exercise

THRESHOLD = 0.7  # the share of the smaller answer; docs/class.md tells how often it is wrong
LEAST = 30  # tokens; shorter passages are alike by chance
NEAR = 0.8  # the share of an answer that the reference contains, from which it is called near the reference
_RING = 4  # a passage that so many other learners have still counts fully
_SMALL = 8  # in a smaller class nothing is common
_COMMON = 0.5  # what this share of the class has counts nothing


@dataclass(frozen=True)
class Given:
    """What every learner may have.

    Attributes:
        stub: the text of the exercise's stub.
        reference: the text of its solution; empty if it is not to be subtracted.
    """

    stub: str
    reference: str = ""


@dataclass(frozen=True)
class Mark:
    """A passage that a pair has in common.

    Attributes:
        number: equal on both sides; 1 is the longest passage.
        begin: the first character in the side's text.
        end: the character after it.
    """

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
        first, second: the two answers.
        score: the share of the smaller answer, 0 to 1.
        evidence: the tokens in common; those that many learners have count less.
    """

    exercise: str
    first: Side
    second: Side
    score: float
    evidence: float


@dataclass(frozen=True)
class Equal:
    """Answers that are equal but for names, comments, layout and constants.

    Attributes:
        exercise: its id.
        logins: the learners, sorted.
        text: the first learner's text.
        size: the tokens that are neither in the stub nor in the reference.
        letter: whether the texts too are equal, apart from white space.
    """

    exercise: str
    logins: tuple[str, ...]
    text: str
    size: int
    letter: bool


@dataclass(frozen=True)
class Near:
    """An answer that is the reference for the most part.

    Attributes:
        exercise: its id.
        logins: the learners, sorted.
        share: how much of what is not in the stub, 0 to 1.
        size: how many tokens of the answer the reference contains and the stub does not.
    """

    exercise: str
    logins: tuple[str, ...]
    share: float
    size: int


@dataclass(frozen=True)
class Report:
    """What is alike in a class.

    Attributes:
        pairs: the most alike first.
        equal: the largest first.
        near: the longest first.
        threshold: the score from which a pair is part of it.
        least: the evidence, in tokens, from which a pair is part of it.
        exercises: how many exercises were compared.
        answers: how many answers were compared.
        short: how many had fewer than ``least`` tokens after the subtraction: too little to compare.
    """

    pairs: tuple[Pair, ...]
    equal: tuple[Equal, ...] = ()
    near: tuple[Near, ...] = ()
    threshold: float = THRESHOLD
    least: float = LEAST
    exercises: int = 0
    answers: int = 0
    short: int = 0

    def together(self) -> list[tuple[tuple[str, str], int]]:
        """Pairs of learners who are alike in several exercises, with the number of exercises, most first."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for pair in self.pairs:
            for one in pair.first.logins:
                for other in pair.second.logins:
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


def given(course: Course, exercise: Exercise) -> Given:
    """The stub and the reference of an exercise.

    Raises:
        OplabError: the solution cannot be read.
    """
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
        reports.append(compare_parts(id, parts, _language(exercises[id]), known[id], threshold=threshold, least=least))
    return Report(
        tuple(
            sorted(
                (pair for report in reports for pair in report.pairs),
                key=lambda pair: (-pair.score * pair.evidence, pair.exercise, pair.first.logins, pair.second.logins),
            )
        ),
        tuple(
            sorted(
                (group for report in reports for group in report.equal),
                key=lambda group: (-group.size, group.exercise, group.logins),
            )
        ),
        tuple(
            sorted(
                (entry for report in reports for entry in report.near),
                key=lambda entry: (-entry.size, entry.exercise, entry.logins),
            )
        ),
        threshold,
        least,
        len(reports),
        sum(report.answers for report in reports),
        sum(report.short for report in reports),
    )


def compare_parts(
    id: str,
    parts: Mapping[str, str],
    language: str,
    given: Given,
    *,
    threshold: float = THRESHOLD,
    least: float = LEAST,
) -> Report:
    """Find the answers to one exercise that are alike. Its lists are not sorted.

    Args:
        id: the exercise.
        parts: what of each learner's file answers the exercise, by login.
        language: ``python`` or ``cpp``.
        given: what is subtracted.
        threshold, least: as in :func:`compare`.
    """
    stub, reference = _grams(given.stub, language), _grams(given.reference, language)
    found = _answers(parts, language, stub | reference)
    long = [answer for answer in found if answer.size >= least]
    return Report(
        tuple(_pairs(id, long, threshold, least)),
        tuple(_equal(id, answer) for answer in long if len(answer.logins) > 1),
        tuple(_near(id, found, stub, reference, least)),
        threshold,
        least,
        1,
        sum(len(answer.logins) for answer in found),
        sum(len(answer.logins) for answer in found if answer.size < least),
    )


def _language(exercise: Exercise) -> str:
    return "python" if exercise.kind == "python" else "cpp"


@functools.lru_cache(maxsize=4096)  # a stub is part of several comparisons
def _tokens(text: str, language: str) -> list[Token]:
    return tokens(text, language)


@functools.lru_cache(maxsize=256)
def _grams(text: str, language: str) -> frozenset[int]:
    return frozenset(grams(_tokens(text, language)))


def _answers(parts: Mapping[str, str], language: str, base: frozenset[int]) -> list[_Answer]:
    """The different answers with what is given marked; those without a token are left out."""
    by_part: dict[str, list[str]] = defaultdict(list)
    for login in sorted(parts):
        by_part[parts[login]].append(login)
    answers: dict[tuple[str, ...], _Answer] = {}
    for part, logins in by_part.items():
        found = _tokens(part, language)
        if not found:
            continue
        answer = answers.setdefault(canonical(found), _Answer([], [], found))
        answer.logins += logins
        answer.texts += [part] * len(logins)
    for answer in answers.values():
        order = sorted(range(len(answer.logins)), key=answer.logins.__getitem__)
        first = answer.texts[order[0]]
        answer.logins, answer.texts = [answer.logins[i] for i in order], [answer.texts[i] for i in order]
        answer.tokens = _tokens(first, language)
        answer.grams = grams(answer.tokens)
        answer.free = [not inside for inside in _covered(answer, base)]
        answer.prints = {value: places for value, places in winnow(answer.grams).items() if value not in base}
    return list(answers.values())


def _covered(answer: _Answer, base: frozenset[int]) -> list[bool]:
    return covered(len(answer.tokens), [i for i, value in enumerate(answer.grams) if value in base])


def _near(
    id: str, found: Iterable[_Answer], stub: frozenset[int], reference: frozenset[int], least: float
) -> Iterable[Near]:
    for answer in found:
        in_stub, in_reference = _covered(answer, stub), _covered(answer, reference)
        own = in_stub.count(False)
        copied = sum(there and not here for here, there in zip(in_stub, in_reference, strict=True))
        if copied >= least and copied >= NEAR * own:
            yield Near(id, tuple(answer.logins), copied / own, copied)


def _equal(id: str, answer: _Answer) -> Equal:
    letter = len({"".join(text.split()) for text in answer.texts}) == 1
    return Equal(id, tuple(answer.logins), answer.texts[0], answer.size, letter)


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

    both = shared(first.prints, second.prints)
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
    return Pair(id, sides[0], sides[1], max(shares), min(sums))


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
