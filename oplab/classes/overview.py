"""What a class has in common: progress, exercises that many fail, wrong ideas that learners share, and what grading took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import median

from oplab.classes.counting import Book, Row, chapter_of
from oplab.classes.ideas import Idea, idea
from oplab.classes.records import Grades, Verdict
from oplab.course.manifest import Course, Exercise

SLOWEST = 8  # exercises in the list of the slowest


@dataclass
class Tally:
    """How many answers are in which state: those of the submissions that count."""

    passed: int = 0
    failed: int = 0
    unwritten: int = 0
    ungraded: int = 0

    def add(self, status: str) -> None:
        """Count an answer with one of the states of :mod:`oplab.grading.results`."""
        names = {"passed": "passed", "todo": "unwritten", "grader_error": "ungraded"}
        name = names.get(status, "failed")
        setattr(self, name, getattr(self, name) + 1)

    @property
    def all(self) -> int:
        """How many there are."""
        return self.passed + self.failed + self.unwritten + self.ungraded

    @property
    def tried(self) -> int:
        """How many learners have written something that was graded."""
        return self.passed + self.failed

    def percent(self, count: int) -> float:
        """A count as a percentage of all."""
        return 100 * count / self.all if self.all else 0.0

    @property
    def sentence(self) -> str:
        """The counts in words."""
        parts = [f"{self.passed} passed", f"{self.failed} failed", f"{self.unwritten} not written"]
        return ", ".join([*parts, *([f"{self.ungraded} not graded"] if self.ungraded else [])])


@dataclass(frozen=True)
class OneChapter:
    """A chapter: its id, its title, the mean and the most of its points as they count, and its answers."""

    id: str
    title: str
    mean: Decimal
    possible: Decimal
    tally: Tally


@dataclass(frozen=True)
class OneExercise:
    """An exercise and its answers."""

    exercise: Exercise
    tally: Tally


@dataclass(frozen=True)
class Shared:
    """A wrong idea, the logins of those who have it, and how many learners have tried the exercise."""

    idea: Idea
    logins: tuple[str, ...]
    tried: int


@dataclass(frozen=True)
class Slow:
    """How long an exercise took to grade: seconds on the clock, of the different answers for which code ran."""

    id: str
    answers: int
    median: float
    longest: float


@dataclass(frozen=True)
class Machine:
    """A computer: how many different answers it graded, and in how many seconds."""

    name: str
    answers: int
    seconds: float


@dataclass(frozen=True)
class Overview:
    """See the module.

    Attributes:
        learners: how many the roster has.
        handed_in: how many have a submission that counts, in which there was a file of the course.
        median: of the totals of these.
        ranges: how many totals are in each tenth of the possible points; more than all of them is in the last one.
        chapters: those that count, in the order of the course.
        exercises: those that were graded, in the order of the course.
        hard: those of them that a learner fails, most failures first.
        shared: wrong ideas, most learners first.
        verdicts: how many different answers were graded, of how many handed in.
        answers: how many answers were handed in, in submissions that count.
        slow: the exercises with the longest median.
        machines: by name.
        versions: of each package, those that graded.
    """

    learners: int
    handed_in: int
    median: Decimal
    ranges: tuple[int, ...]
    chapters: tuple[OneChapter, ...]
    exercises: tuple[OneExercise, ...]
    hard: tuple[OneExercise, ...]
    shared: tuple[Shared, ...]
    verdicts: int
    answers: int
    slow: tuple[Slow, ...]
    machines: tuple[Machine, ...]
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ungraded(self) -> bool:
        """Whether an answer is not graded yet."""
        return any(one.tally.ungraded for one in self.exercises)

    @property
    def mixed(self) -> bool:
        """Whether answers were graded with different versions of a package."""
        return any(len(versions) > 1 for versions in self.versions.values())


def overview(
    grades: Grades, book: Book, course: Course, words: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> Overview:
    """The state of a class.

    Args:
        grades: what was graded.
        book: how it counts.
        course: for titles and order.
        words: of known wrong answers (:func:`oplab.classes.ideas.known`).
    """
    rows = [row for row in book.rows if row.submission is not None and row.submission.tasks]
    of_exercise: dict[str, Tally] = {}
    of_chapter: dict[str, Tally] = {}
    ideas: dict[tuple[str, str], tuple[Idea, list[str]]] = {}
    for row in rows:
        for id, status in _states(row):
            of_exercise.setdefault(id, Tally()).add(status)
            of_chapter.setdefault(chapter_of(id), Tally()).add(status)
        for id, outcome in row.outcomes.items():
            if found := idea(outcome, words.get(id, {})):
                ideas.setdefault((id, found.key), (found, []))[1].append(row.learner.login)
    exercises = tuple(OneExercise(e, of_exercise[e.id]) for e in course.exercises if e.id in of_exercise)
    failed = [one for one in exercises if one.tally.failed]
    shared = [Shared(one, tuple(logins), of_exercise[one.exercise].tried) for one, logins in ideas.values()]
    verdicts = _distinct(grades, rows)
    return Overview(
        learners=len(book.rows),
        handed_in=len(rows),
        median=Decimal(median(row.total for row in rows)) if rows else Decimal(0),
        ranges=_ranges(rows, book.total),
        chapters=tuple(_chapters(rows, book, course, of_chapter)),
        exercises=exercises,
        hard=tuple(sorted(failed, key=lambda one: (-one.tally.failed, -one.tally.failed / one.tally.tried))),
        shared=tuple(sorted(shared, key=lambda one: (-len(one.logins), one.idea.exercise, one.idea.key))),
        verdicts=len(verdicts),
        answers=sum(len(row.outcomes) for row in rows),
        slow=_slow(verdicts),
        machines=_machines(verdicts),
        versions=_versions(verdicts),
    )


def _states(row: Row) -> Iterable[tuple[str, str]]:
    """The state of each exercise of the submission that counts; one that was not graded yet is the grader's."""
    assert row.submission is not None
    for id in row.submission.tasks:
        yield id, row.outcomes[id].status if id in row.outcomes else "grader_error"


def _ranges(rows: Iterable[Row], possible: Decimal) -> tuple[int, ...]:
    counts = [0] * 10
    for row in rows:
        counts[min(9, int(10 * row.total / possible)) if possible else 0] += 1
    return tuple(counts)


def _chapters(rows: list[Row], book: Book, course: Course, tallies: Mapping[str, Tally]) -> Iterable[OneChapter]:
    for chapter in course.chapters:
        if chapter.id in book.possible:
            points = [row.chapters[chapter.id] for row in rows]
            mean = sum(points, Decimal(0)) / len(points) if points else Decimal(0)
            tally = tallies.get(chapter.id, Tally())
            yield OneChapter(chapter.id, chapter.title, mean, book.possible[chapter.id], tally)


def _distinct(grades: Grades, rows: Iterable[Row]) -> list[Verdict]:
    """The verdicts that the rows are made from, each once, sorted by key."""
    keys = {task.key for row in rows if row.submission is not None for task in row.submission.tasks.values()}
    return [grades.verdicts[key] for key in sorted(keys) if key in grades.verdicts]


def _slow(verdicts: Iterable[Verdict]) -> tuple[Slow, ...]:
    seconds: dict[str, list[float]] = {}
    for verdict in verdicts:
        if verdict.machine:
            seconds.setdefault(verdict.exercise, []).append(verdict.seconds)
    found = [Slow(id, len(times), median(times), max(times)) for id, times in seconds.items()]
    return tuple(sorted(found, key=lambda one: (-one.median, one.id))[:SLOWEST])


def _machines(verdicts: Iterable[Verdict]) -> tuple[Machine, ...]:
    count: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for verdict in verdicts:
        if verdict.machine:
            count[verdict.machine] += 1
            seconds[verdict.machine] += verdict.seconds  # type: ignore[assignment]
    return tuple(Machine(name, count[name], float(seconds[name])) for name in sorted(count))


def _versions(verdicts: Iterable[Verdict]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for verdict in verdicts:
        for name, version in verdict.versions.items():
            if name != "grader":  # a digest of each exercise's own checks
                found.setdefault(name, set()).add(version)
    return {name: tuple(sorted(found[name])) for name in sorted(found)}
