"""The grades as CSV: ``grades.csv`` for people and programs, and ``lms/*.csv`` as learning management systems import them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path

from oplab.classes.counting import BONUS, Book, Row, is_formula, shown
from oplab.classes.rules import TOTAL, Rules
from oplab.errors import clean
from oplab.files import write_atomically

# Where the comma is the decimal separator, a spreadsheet splits at semicolons, also in quotation marks.
_INNER = re.compile(r"([;,|；，｜]\s*)(?=[=+\-@＝＋－＠])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+")
Cells = list[str]


def write(book: Book, rules: Rules, folder: Path, *, exercises: bool = False) -> list[Path]:
    """Write the grade book. The same verdicts, roster and rules give the same bytes.

    Args:
        exercises: whether the files in ``lms/`` have a column for each exercise. Else they have one for the total; with both, a platform
            would count the points twice.
    """
    (folder / "lms").mkdir(parents=True, exist_ok=True)
    files = {folder / "grades.csv": plain(book)}
    for system, render in SYSTEMS.items():
        files[folder / "lms" / f"{system}.csv"] = render(book, rules.columns.get(system, {}), exercises)
    for path, text in reversed(files.items()):  # grades.csv last: it says which grades are out
        write_atomically(path, text)
    return list(files)


def plain(book: Book) -> str:
    """``grades.csv``: login, name, points by chapter, bonus where there is one, total. A row adds up to its total.

    What is not graded yet is an empty cell, here and in the other files.
    """
    items = [*book.possible, *([BONUS] if book.bonus else []), TOTAL]
    lines = [["login", "name", *items]]
    for row in book.rows:
        lines.append([_text(row.learner.login), _text(row.learner.name), *(_shown(row.points(item)) for item in items)])
    return _csv(lines, "\n")


def canvas(book: Book, columns: Mapping[str, str], exercises: bool = False) -> str:
    """For Canvas, "How do I import grades in the Gradebook?" (Canvas Instructor Guide).

    Its importer wants the columns Student, ID, SIS User ID, SIS Login ID and Section first and in this order, and takes each further
    one for an assignment. The row "Points Possible" sets what a new assignment is worth. A learner is found by the SIS login.
    """
    items = _items(book, columns, exercises)
    lines = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(_text(header) for _, header in items)]]
    lines.append(["    Points Possible", "", "", "", "", *(shown(_possible(book, item)) for item, _ in items)])
    for row in book.rows:
        person = row.learner
        name, login = _text(person.name or person.login), _text(person.login)
        lines.append([name, "", "", login, _text(person.section), *_points(row, items)])
    return _csv(lines)


def moodle(book: Book, columns: Mapping[str, str], exercises: bool = False) -> str:
    """For Moodle, "Grade import" (MoodleDocs): any columns, which the teacher maps to a user's field and to grade items.

    The grades are percentages, because a new grade item goes up to 100: one larger grade, and Moodle imports none.
    """
    items = _items(book, columns, exercises)
    lines = [["First name", "Last name", "Username", "Email address", *(_text(header) for _, header in items)]]
    for row in book.rows:
        person = row.learner
        first, last = names(person.name)
        percent = [_shown(_percent(row.points(item), _possible(book, item))) for item, _ in items]
        lines.append([_text(first), _text(last), _text(person.login), _text(person.email), *percent])
    return _csv(lines)


def blackboard(book: Book, columns: Mapping[str, str], exercises: bool = False) -> str:
    """For Blackboard, "Work Offline with Grade Data" (Blackboard Help).

    Each cell of a comma-separated file is in quotation marks. A learner is found by the username; a column by the number after ``|``
    in its header, and one without a number becomes a new column of text.
    """
    items = _items(book, {}, exercises)
    headers = [
        columns.get(item, f"{header} [Total Pts: {shown(_possible(book, item))} Score]") for item, header in items
    ]
    lines = [["Last Name", "First Name", "Username", *map(_text, headers)]]
    for row in book.rows:
        first, last = names(row.learner.name)
        lines.append([_text(last), _text(first), _text(row.learner.login), *_points(row, items)])
    return _csv(lines, always=True)


SYSTEMS: Mapping[str, Callable[[Book, Mapping[str, str], bool], str]] = {
    "canvas": canvas,
    "moodle": moodle,
    "blackboard": blackboard,
}


def names(name: str) -> tuple[str, str]:
    """First and last name: around the comma of ``Lovelace, Ada``, else the last word is the last name.

    No system uses them to find a learner.
    """
    last, comma, first = name.partition(",")
    if comma:
        return first.strip(), last.strip()
    first, _, last = name.strip().rpartition(" ")
    return first.strip(), last


def _items(book: Book, columns: Mapping[str, str], exercises: bool) -> list[tuple[str, str]]:
    """What has a column of points, each with its header."""
    return [(item, columns.get(item, f"Operator Lab {item}")) for item in (book.exercises if exercises else (TOTAL,))]


def _points(row: Row, items: Iterable[tuple[str, str]]) -> Cells:
    return [_shown(row.points(item)) for item, _ in items]


def _shown(points: Decimal | None) -> str:
    return "" if points is None else shown(points)


def _possible(book: Book, item: str) -> Decimal:
    return book.total if item == TOTAL else book.exercises[item]


def _percent(points: Decimal | None, possible: Decimal) -> Decimal | None:
    if points is None:
        return None
    return 100 * points / possible if possible else Decimal(0)


def _text(text: str) -> str:
    """A cell with a text from outside: on one line, and never a formula."""
    text = _INNER.sub(r"\1'", _CONTROL.sub(" ", clean(text)))
    return f"'{text}" if is_formula(text) else text


def _csv(lines: Iterable[Cells], end: str = "\r\n", *, always: bool = False) -> str:
    """The lines as RFC 4180 writes them; ``always``: each cell in quotation marks."""
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL if always else csv.QUOTE_MINIMAL).writerows(lines)
    return text.getvalue()
