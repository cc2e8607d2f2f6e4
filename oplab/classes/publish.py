"""Writes all that comes out of GRADES: grade book, pages, archives. A grade that is out goes down only if the teacher accepts it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path

from oplab.classes import feedback, gradebook
from oplab.classes.counting import Book, count, shown
from oplab.classes.records import Grades
from oplab.classes.rules import Rules
from oplab.course.manifest import Course
from oplab.errors import OplabError
from oplab.files import write_atomically


@dataclass(frozen=True)
class Change:
    """A learner's total, before and after."""

    login: str
    before: Decimal
    after: Decimal

    def __str__(self) -> str:
        """``ada: 31 → 35 (+4)``."""
        gap = self.after - self.before
        return f"{self.login}: {shown(self.before)} → {shown(self.after)} ({'+' if gap > 0 else '−'}{shown(abs(gap))})"


@dataclass(frozen=True)
class Published:
    """What was written.

    Attributes:
        files: the files and folders; none if a grade would have gone down.
        changes: the learners whose total differs from the grade book that was there, by login.
        notes: what the teacher should know before the grades are used, as sentences.
        complete: whether everything is graded.
    """

    files: tuple[Path, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    complete: bool


def publish(grades: Grades, course: Course, used: Rules, *, accept: bool = False, exercises: bool = False) -> Published:
    """Write ``grades.csv``, ``lms/``, ``learners/``, ``feedback.zip``, ``class.html`` and the rules' files to GRADES.

    If a total would be lower than in the ``grades.csv`` that is there, nothing is written.

    Args:
        accept: write lower grades, too.
        exercises: as for :func:`gradebook.write`.
    """
    book = count(grades, grades.learners, used)
    changes = differences(totals(grades.folder), book)
    published = Published((), changes, book.notes, not any(row.ungraded for row in book.rows))
    if lower(changes) and not accept:
        return published
    for name, text in used.files.items():
        write_atomically(grades.folder / name, text)
    # The grade book is last: what it is compared with next time is there only when all the rest is.
    files = feedback.write(grades, book, used, course, grades.folder)
    return replace(published, files=(*gradebook.write(book, used, grades.folder, exercises=exercises), *files))


def lower(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes of grades that go down."""
    return tuple(change for change in changes if change.after < change.before)


def differences(before: Mapping[str, Decimal], book: Book) -> tuple[Change, ...]:
    """The learners whose total is not what it was, by login. One who is new is not among them, one who is gone neither."""
    return tuple(
        Change(row.learner.login, before[row.learner.login], row.total)
        for row in book.rows
        if row.learner.login in before and before[row.learner.login] != row.total
    )


def totals(folder: Path) -> dict[str, Decimal]:
    """The totals in the ``grades.csv`` of a folder, by login, of those that have one; empty if there is no such file."""
    path = folder / "grades.csv"
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            return {row["login"]: Decimal(row["total"]) for row in csv.DictReader(stream) if row["total"] != ""}
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, InvalidOperation):
        raise OplabError(
            f"{path} was changed after it was written, so no grade can be compared with it.",
            "Move it away; it is rebuilt from the verdicts.",
        ) from None
