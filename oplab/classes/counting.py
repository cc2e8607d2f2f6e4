"""From verdicts to points: which submission of a learner counts, and for how much, under the rules of a course."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal

from oplab.classes.records import Grades, Learner, Submission
from oplab.classes.rules import TOTAL, Manual, Rules
from oplab.grading.results import Outcome

_CENT = Decimal("0.01")  # grade books show two decimals
BONUS = "bonus"  # the column of the bonus, where a chapter's is its id
_ALL = "every exercise"  # what is ungraded in a submission in which nothing was recognised


@dataclass(frozen=True)
class Row:
    """One learner's grade.

    Attributes:
        learner: who.
        submission: the one that counts; None if there is none, or only such as came too late.
        days_late: how many days after the deadline it came.
        part: what part of its points it gets for that.
        outcomes: how its exercises were graded, by id; those that are not graded yet are missing.
        chapters: points by chapter (``c04``), as they count: with weight and penalty, and without bonus.
        bonus: points of bonus exercises, as they count.
        total: the sum of these.
        exercises: points by exercise id, as they count.
        ungraded: the ids of exercises whose points are still open: not graded yet, or the grader itself failed. The points above are
            without them.
        too_late: how many submissions came too late to count.
        manual: what the teacher has entered, by exercise id; it counts in place of the outcome's points.
    """

    learner: Learner
    submission: Submission | None
    days_late: int
    part: Decimal
    outcomes: Mapping[str, Outcome]
    chapters: Mapping[str, Decimal]
    bonus: Decimal
    total: Decimal
    ungraded: tuple[str, ...]
    too_late: int
    exercises: Mapping[str, Decimal] = field(default_factory=dict)
    manual: Mapping[str, Manual] = field(default_factory=dict)

    def points(self, item: str) -> Decimal | None:
        """What an exercise, a chapter (``c04``), the bonus or the total has; None while something of it is ungraded."""
        if "." in item:
            return self.exercises.get(item, None if {item, _ALL} & {*self.ungraded} else Decimal(0))
        if any(item not in self.chapters or chapter_of(id) in (item, _ALL) for id in self.ungraded):
            return None
        return {**self.chapters, BONUS: self.bonus, TOTAL: self.total}[item]


@dataclass(frozen=True)
class Book:
    """The grades of a class.

    Attributes:
        rows: sorted by login.
        possible: the points that each chapter is worth, in the order of their numbers; a chapter that does not count is missing.
        exercises: the same by exercise id.
        bonus: whether there are bonus exercises.
        notes: what the teacher should know before the grades are used, as sentences.
    """

    rows: tuple[Row, ...]
    possible: Mapping[str, Decimal]
    exercises: Mapping[str, Decimal]
    bonus: bool
    notes: tuple[str, ...]

    @property
    def total(self) -> Decimal:
        """The points of all chapters that count."""
        return sum(self.possible.values(), Decimal(0))


def count(grades: Grades, roster: Mapping[str, Learner], rules: Rules) -> Book:
    """The grades of all learners of the roster."""
    worth = _worth(grades, rules)
    possible: dict[str, Decimal] = {}
    exercises: dict[str, Decimal] = {}
    for id in sorted(worth):
        if id not in rules.bonus and (weight := rules.weight(chapter_of(id))):
            exercises[id] = _rounded(weight * worth[id])
            possible[chapter_of(id)] = possible.get(chapter_of(id), Decimal(0)) + weight * worth[id]
    possible = {chapter: _rounded(points) for chapter, points in sorted(possible.items())}
    rows = tuple(_row(grades, roster[login], rules, possible) for login in sorted(roster))
    has_bonus = any(rules.weight(chapter_of(id)) for id in rules.bonus if id in worth)
    return Book(rows, possible, exercises, has_bonus, tuple(_notes(grades, rows, rules)))


def chapter_of(exercise: str) -> str:
    """``c04`` for ``c04.asinh``."""
    return exercise.partition(".")[0]


def shown(points: Decimal) -> str:
    """Points as text: two decimals at most, no trailing zeros."""
    text = f"{_rounded(points):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _worth(grades: Grades, rules: Rules) -> dict[str, int]:
    """What each exercise is worth, by id, as far as one of the class was graded, also by hand."""
    found = {id: entry.most for (_, id), entry in rules.manual.items() if entry.points is not None}
    for submissions in grades.submissions.values():
        for submission in submissions:
            for id in submission.tasks:
                if (verdict := grades.verdict(submission, id)) is not None:
                    found[id] = max(found.get(id, 0), verdict.outcome.max_points)  # in whatever order they are found
    return found


def _row(grades: Grades, learner: Learner, rules: Rules, possible: Iterable[str]) -> Row:
    handed_in = grades.submissions.get(learner.login, ())
    in_time = [one for one in handed_in if rules.days_late(learner.login, one.submitted_at) <= rules.late_days]
    rows = [_counted(grades, learner, rules, possible, one) for one in in_time or [None]]
    # Of equally good submissions the first: it is the least late.
    chosen = rows[-1] if rules.submission == "last" else max(rows, key=lambda row: row.total)
    return replace(chosen, too_late=len(handed_in) - len(in_time))


def _counted(
    grades: Grades, learner: Learner, rules: Rules, possible: Iterable[str], submission: Submission | None
) -> Row:
    """The row of a learner if this submission counted; without one, what the teacher has entered counts."""
    days = rules.days_late(learner.login, submission.submitted_at) if submission else 0
    part = rules.part(days)
    chapters = {chapter: Decimal(0) for chapter in possible}
    bonus = Decimal(0)
    outcomes: dict[str, Outcome] = {}
    exercises: dict[str, Decimal] = {}
    manual = {id: entry for (login, id), entry in rules.manual.items() if login == learner.login}
    points_by_hand = {id: entry.points for id, entry in manual.items() if entry.points is not None}
    tasks = submission.tasks if submission else {}
    ungraded = [_ALL] if submission and not tasks else []
    for id in sorted({*tasks, *points_by_hand}):
        verdict = grades.verdict(submission, id) if submission else None
        if verdict is not None:
            outcomes[id] = verdict.outcome
        if not (weight := rules.weight(chapter_of(id))):
            continue
        if id in points_by_hand:
            points = points_by_hand[id]
        elif verdict is None or verdict.outcome.status == "grader_error":
            ungraded.append(id)
            continue
        else:
            points = Decimal(_points(verdict.outcome, rules))
        points *= part * weight
        exercises[id] = _rounded(points)
        if id in rules.bonus:
            bonus += points
        else:
            chapters[chapter_of(id)] += points
    # Rounded before they are added, so that a row of the grade book adds up.
    chapters = {chapter: _rounded(points) for chapter, points in chapters.items()}
    bonus = _rounded(bonus)
    total = sum(chapters.values(), bonus)
    return Row(learner, submission, days, part, outcomes, chapters, bonus, total, tuple(ungraded), 0, exercises, manual)


def _points(outcome: Outcome, rules: Rules) -> int:
    return outcome.max_points if outcome.passed and not rules.speed else outcome.points


def _rounded(points: Decimal) -> Decimal:
    return points.quantize(_CENT, ROUND_HALF_UP)


def _notes(grades: Grades, rows: Iterable[Row], rules: Rules) -> Iterable[str]:
    rows = tuple(rows)
    still = [row for row in rows if row.ungraded]
    if still:
        ids = sorted({id for row in still for id in row.ungraded})
        yield f"The points of {_people(still)} are not complete, so cells stay empty. Not graded yet: {_few(ids)}."
    if rules.deadline is not None:
        unknown = [row for row in rows if row.submission is not None and row.submission.submitted_at is None]
        if unknown:
            yield f"The submission of {_people(unknown)} has no time, and counts as in time."
    late = [row for row in rows if row.too_late and row.submission is None]
    if late:
        yield f"{_people(late)} handed in only after the last late day; that does not count."
    if strangers := rules.strangers(row.learner.login for row in rows):
        yield f"class.toml has an extension for {_few(strangers)}, and the roster does not."
    quoted = [row.learner.login for row in rows if is_formula(row.learner.login)]
    if quoted:
        yield (
            f"A spreadsheet would take the login {_few(quoted)} for a formula. The CSV files have an apostrophe before it, "
            "so a grade book will not find that learner: enter these grades by hand."
        )


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may take a cell with this text for a formula.

    The characters are those of the page "CSV Injection" of the OWASP community, also full-width and after blanks.
    """
    return text.lstrip()[:1] in (*"=+-@＝＋－＠",) or text[:1] in ("\t", "\r", "\0")


def _people(rows: list[Row]) -> str:
    return _few([row.learner.login for row in rows])


def _few(names: list[str], most: int = 5) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
