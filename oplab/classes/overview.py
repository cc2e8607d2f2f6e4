"""The page about a class: progress, exercises that many fail, and mistakes that learners share.

Only the submissions that count are on it, and of each only the files that were handed in: who has not handed in a chapter is not among
those who failed it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from oplab.classes.counting import Book, Row, chapter_of, shown
from oplab.classes.extraction import is_missing
from oplab.classes.records import Grades
from oplab.course.manifest import Chapter, Course, Exercise
from oplab.errors import clean
from oplab.grading.results import Outcome
from oplab.reports import html

HARD = 12  # exercises that many fail, on the page
SHARED = 25  # mistakes on the page
# What an array comparison reports in numbers: it differs between learners, and does not explain anything.
_FIGURES = re.compile(r"elements differ; first |^Largest error |\(allowed [-\d.e+]+ \+ ")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)\b", re.IGNORECASE)
_MOST = 300  # characters of a message on the page


@dataclass
class Tally:
    """How many answers are in which state."""

    passed: int = 0
    failed: int = 0
    unwritten: int = 0
    ungraded: int = 0

    def add(self, status: str) -> None:
        """Count an answer with one of the states of :mod:`oplab.grading.results`."""
        name = {"passed": "passed", "todo": "unwritten", "grader_error": "ungraded"}.get(status, "failed")
        setattr(self, name, getattr(self, name) + 1)

    @property
    def tried(self) -> int:
        """How many learners have written something that was graded."""
        return self.passed + self.failed

    def percent(self, count: int) -> float:
        """A count as a percentage of all."""
        return 100 * count / ((self.tried + self.unwritten + self.ungraded) or 1)

    @property
    def sentence(self) -> str:
        """The counts in words."""
        ungraded = f", {self.ungraded} not graded" if self.ungraded else ""
        return f"{self.passed} passed, {self.failed} failed, {self.unwritten} not written{ungraded}"


@dataclass(frozen=True)
class Overview:
    """The state of a class.

    Attributes:
        handed_in: how many learners have a submission that counts, in which there was a graded file.
        median: of the totals of these.
        ranges: how many totals are in each tenth of the possible points; more than all of them is in the last one.
        tallies: by chapter (``c04``) and by exercise.
        chapters: those that count and were handed in, with the mean of their points, in the order of the course.
        exercises: those that were handed in, in the order of the course.
        hard: those of them that a learner fails, most failures first.
        shared: exercise id, message and logins of each mistake, most learners first.
    """

    handed_in: int
    median: Decimal
    ranges: tuple[int, ...]
    tallies: dict[str, Tally]
    chapters: tuple[tuple[Chapter, Decimal], ...]
    exercises: tuple[Exercise, ...]
    hard: tuple[Exercise, ...]
    shared: tuple[tuple[str, str, tuple[str, ...]], ...]


def overview(book: Book, course: Course) -> Overview:
    """The state of a class; ``course`` is for titles and order."""
    answered = [(row, found) for row in book.rows if (found := _handed_in(row))]
    rows = [row for row, _ in answered]
    tallies: dict[str, Tally] = {}
    points: dict[str, list[Decimal]] = {}
    mistakes: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for row, handed_in in answered:
        for id, outcome in handed_in.items():
            for name in (id, chapter_of(id)):
                tallies.setdefault(name, Tally()).add(outcome.status if outcome else "grader_error")
            if outcome and (text := mistake(outcome)):
                # Numbers differ between two learners with one mistake, and names do, unless they are what is wrong.
                names = outcome.status in ("build_failed", "error")
                key = text if names else re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "'…'", text)
                mistakes.setdefault((id, _NUMBER.sub("#", key)), (text, []))[1].append(row.learner.login)
        for chapter in {chapter_of(id) for id in handed_in} & book.possible.keys():
            points.setdefault(chapter, []).append(row.chapters[chapter])
    ranges = [0] * 10
    for row in rows:
        ranges[min(9, int(10 * row.total / book.total)) if book.total else 0] += 1
    exercises = tuple(exercise for exercise in course.exercises if exercise.id in tallies)
    failed = [exercise for exercise in exercises if tallies[exercise.id].failed]
    shared = [(id, text, tuple(logins)) for (id, _), (text, logins) in mistakes.items()]
    return Overview(
        len(rows),
        Decimal(median(row.total for row in rows)) if rows else Decimal(0),
        tuple(ranges),
        tallies,
        tuple((one, sum(points[one.id]) / len(points[one.id])) for one in course.chapters if one.id in points),
        exercises,
        tuple(sorted(failed, key=lambda one: (-tallies[one.id].failed, tallies[one.id].passed))),
        tuple(sorted(shared, key=lambda one: (-len(one[2]), one))),
    )


def class_page(grades: Grades, book: Book, course: Course) -> str:
    """The page for the teacher, as HTML."""
    state = overview(book, course)
    most = max(state.ranges) or 1
    several = [one for one in state.shared if len(one[2]) > 1]
    return html.template("oplab.classes", "class.html.j2").render(
        course=course,
        state=state,
        book=book,
        hard=state.hard[:HARD],
        shared=several[:SHARED],
        more=len(several[SHARED:]),
        single=len(state.shared) - len(several),
        problems=grades.problems,
        ranges=[(f"{10 * tenth}–{10 * tenth + 10} %", n, 100 * n / most) for tenth, n in enumerate(state.ranges)],
        shown=shown,
        number=number,
        clean=clean,
    )


def mistake(outcome: Outcome) -> str:
    """What tells a learner what is wrong, without figures; empty where an answer passed, is not written, or could not be graded."""
    if outcome.status in ("passed", "todo", "grader_error"):
        return ""
    messages = [check.message for check in outcome.checks if not check.passed and check.message]
    sentences = [part.strip() for part in _SENTENCE.split((*messages, outcome.message)[0]) if part.strip()]
    telling = [sentence for sentence in sentences if not _FIGURES.search(sentence)] or sentences
    if outcome.status in ("build_failed", "error"):
        errors = [sentence for sentence in telling if re.search(r"\w(?:Error|Exception)\b|\berror:", sentence)]
        telling = (errors or telling)[:1]
    text = " ".join(" ".join(telling).split()) or outcome.status.replace("_", " ")
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def number(count: int, what: str) -> str:
    """``1 day``, ``2 days``."""
    return f"{count} {what}{'s' * (count != 1)}"


def _handed_in(row: Row) -> dict[str, Outcome | None]:
    """The exercises of the submission that counts whose file is in it, by id; None as long as one is not graded."""
    found = {id: row.outcomes.get(id) for id in row.submission.tasks} if row.submission is not None else {}
    return {id: outcome for id, outcome in found.items() if outcome is None or not is_missing(outcome)}
