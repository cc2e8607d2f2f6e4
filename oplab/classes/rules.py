"""What counts, and how much: ``class.toml``, the rules of a course, and ``manual.csv``, a teacher's own points (docs/class_grades.md)."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

from oplab.classes import tables
from oplab.classes.records import Learner
from oplab.course.manifest import Course
from oplab.errors import OplabError

RULES, MANUAL = "class.toml", "manual.csv"  # in GRADES: what it was written with
SYSTEMS = ("canvas", "moodle", "blackboard")
# A column of Canvas whose header holds one of these is its own, computed one: an import leaves it out.
_CANVAS_OWN = re.compile(r"(?:Current|Final) (?:Score|Points|Grade)|Override (?:Score|Grade|Status)")
TOTAL = "total"  # the key of the total's column, where an exercise's is its id
_TABLES = ("weights", "bonus", "extensions", "columns")
_KEYS = ("deadline", "timezone", "late_days", "late_penalty", "submission", "speed", *_TABLES)
_DAY = timedelta(days=1)
_MANUAL = {
    "login": "login learner student username".split(),
    "exercise": ["exercise", "id"],
    "points": "points score grade".split(),
    "comment": "comment feedback".split(),
}


@dataclass(frozen=True)
class Manual:
    """What a teacher has entered for an answer.

    Attributes:
        points: in place of the grader's; None: those stay.
        most: what the exercise is worth.
        comment: for the learner; may be empty.
    """

    points: Decimal | None
    most: int
    comment: str


@dataclass(frozen=True)
class Rules:
    """How a class is graded. Without rules the last submission counts, with all of its points.

    Attributes:
        deadline: a submission at this time is in time; None: there is no deadline.
        late_days: how many days after the deadline a submission still counts.
        late_penalty: the percentage of its points that a submission loses for each late day that has begun.
        submission: ``last``: the newest that is not too late; ``best``: the one with most points after penalties.
        speed: whether the points of a right answer grow with its speed; if not, each right answer gets all of its points.
        weights: by what a chapter's points are multiplied; 1 for one that is not listed.
        bonus: ids of exercises whose points are a bonus: the total can grow by them, and nothing is lost without them.
        extensions: a learner's own deadline, by login.
        columns: for each of :data:`SYSTEMS` the headers that its grade book has, by exercise or :data:`TOTAL`.
        manual: a teacher's own points, by login and exercise; weights and penalties apply to them, too.
        files: the texts that these rules were read from, by their names in GRADES.
    """

    deadline: datetime | None = None
    late_days: int = 0
    late_penalty: Decimal = Decimal(0)
    submission: str = "last"
    speed: bool = True
    weights: Mapping[str, Decimal] = field(default_factory=dict)
    bonus: frozenset[str] = frozenset()
    extensions: Mapping[str, datetime] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    manual: Mapping[tuple[str, str], Manual] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def days_late(self, login: str, at: datetime | None) -> int:
        """How many days after the learner's deadline have begun at a time; 0 where the time or the deadline is not known.

        Args:
            at: with a time zone.
        """
        deadline = self.extensions.get(login, self.deadline)
        if deadline is None or at is None or at <= deadline:
            return 0
        return math.ceil((at - deadline) / _DAY)

    def part(self, days_late: int) -> Decimal:
        """What part of its points a submission gets: 1 in time, 0 where it is too late or the penalty takes all."""
        if days_late > self.late_days:
            return Decimal(0)
        return max(Decimal(0), 1 - days_late * self.late_penalty / 100)

    def weight(self, chapter: str) -> Decimal:
        """By what the points of a chapter (``c04``) are multiplied; 0 if it does not count."""
        return self.weights.get(chapter, Decimal(1))

    def strangers(self, logins: Iterable[str]) -> list[str]:
        """The logins with an extension that are not among ``logins``, sorted."""
        return sorted(set(self.extensions) - set(logins))


def rules_of(
    folder: Path,
    course: Course,
    learners: Mapping[str, Learner],
    given: Path | None = None,
    manual: Path | None = None,
    *,
    exercises: bool = False,
) -> Rules:
    """The rules for GRADES.

    Args:
        given: ``class.toml`` from the teacher; else the one that GRADES was last written with, else there are no rules.
        manual: the same for ``manual.csv``.
        exercises: whether grade books get a column for each exercise.
    """
    found = Rules()
    path = folder / RULES if given is None else given
    if given is not None or path.exists():
        found = load(path, course)
    if exercises and found.bonus:
        raise OplabError(
            f"{path} has a bonus, and a platform would count the column of a bonus exercise as points to lose.",
            "Omit --columns exercises, or the bonus.",
        )
    path = folder / MANUAL if manual is None else manual
    if manual is not None or path.exists():
        text, entries = load_manual(path, course, learners)
        found = replace(found, manual=entries, files={**found.files, MANUAL: text})
    return found


def load_manual(
    path: Path, course: Course, learners: Mapping[str, Learner]
) -> tuple[str, dict[tuple[str, str], Manual]]:
    """The text of a ``manual.csv``, and what it holds by login and exercise."""
    table = tables.read(path, "table of points", _MANUAL, ("login", "exercise"))
    if not table.header:
        raise OplabError(f"{path} has no header.", "Its first line is: login,exercise,points,comment")
    people = {login.casefold(): login for login in learners}
    found: dict[tuple[str, str], Manual] = {}
    for number, row in table.rows:
        try:
            exercise = course.exercise(row["exercise"])
            login = people.get(row["login"].casefold()) or _fail(f"{row['login'] or 'it'} is not in the roster")
            points = Decimal(row["points"].replace(",", ".")) if row["points"] else None
            if points is not None and not 0 <= points <= exercise.points:
                raise InvalidOperation
            if (login, exercise.id) in found:
                _fail(f"{login} has points for {exercise.id} twice")
        except InvalidOperation:
            sentence = f"points for {exercise.id} are from 0 to {exercise.points}, not {row['points'][:40]}."
            raise OplabError(f"{path}, line {number}: {sentence}", "Fix that line.") from None
        except OplabError as error:
            raise OplabError(f"{path}, line {number}: {error.message}", error.fix or "Fix that line.") from None
        found[login, exercise.id] = Manual(points, exercise.points, row["comment"])
    return table.text, found


def load(path: Path, course: Course) -> Rules:
    """Read ``class.toml``."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        return replace(_rules(tomllib.loads(text, parse_float=Decimal), course), files={RULES: text})
    except OSError as error:
        raise OplabError(f"{path} cannot be read: {error.strerror}.", "Name the file with --rules.") from None
    except UnicodeDecodeError:
        raise OplabError(f"{path} cannot be read: it is not UTF-8 text.", "Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise OplabError(f"{path} is not valid TOML: {error}.", "Fix that line.") from None
    except OplabError as error:
        raise OplabError(f"{path.name}: {error.message}", error.fix or "Fix that line.") from None


def _rules(data: dict[str, Any], course: Course) -> Rules:
    _known(data, _KEYS, "it")
    for name in _TABLES:
        if not isinstance(data.get(name, {}), dict):
            _fail(f"{name} has to be a table: [{name}]")
    zone = _zone(data["timezone"]) if "timezone" in data else None
    deadline = _time("deadline", data["deadline"], zone) if "deadline" in data else None
    late_days = _number("late_days", data.get("late_days", 0), 365, whole=True)
    penalty = _number("late_penalty", data.get("late_penalty", 0), 100)
    for key in ("late_days", "late_penalty"):
        if key in data and deadline is None:
            _fail(f"{key} needs a deadline")
    if penalty and not late_days:
        _fail("late_penalty needs late_days: no late submission counts otherwise")
    submission, speed = data.get("submission", "last"), data.get("speed", True)
    if submission not in ("last", "best"):
        _fail(f'submission = {_shown(submission)} has to be "last" or "best"')
    if not isinstance(speed, bool):
        _fail(f"speed = {_shown(speed)} has to be true or false")
    weights: dict[str, Decimal] = {}
    for name, value in data.get("weights", {}).items():
        id = course.chapter(name).id
        if id in weights:
            _fail(f"{id} has two weights")
        weights[id] = _number(f"weights.{name}", value, 1000)
    _known(data.get("bonus", {}), ("exercises",), "the table bonus")
    bonus = data.get("bonus", {}).get("exercises", [])
    if not isinstance(bonus, list) or not all(isinstance(id, str) for id in bonus):
        _fail('bonus.exercises has to be a list such as ["c07.knn_query", "c16"]')
    return Rules(
        deadline,
        int(late_days),
        penalty,
        submission,
        speed,
        weights,
        frozenset(exercise.id for exercise in course.select(bonus)) if bonus else frozenset(),
        _extensions(data.get("extensions", {}), deadline, zone),
        _columns(data.get("columns", {}), course),
    )


def _extensions(given: dict[str, Any], deadline: datetime | None, zone: ZoneInfo | None) -> dict[str, datetime]:
    found = {}
    for login, value in given.items():
        key = f"extensions.{login}"
        if deadline is None:
            _fail(f"{login} has an extension, and there is no deadline")
        if isinstance(value, date):
            found[login] = _time(key, value, zone)
        else:
            found[login] = deadline + int(_number(key, value, 365, whole=True)) * _DAY
        if found[login] < deadline:
            _fail(f"the extension of {login} ends before the deadline")
    return found


def _columns(given: dict[str, Any], course: Course) -> dict[str, dict[str, str]]:
    _known(given, SYSTEMS, "the table columns")
    found: dict[str, dict[str, str]] = {}
    for system, headers in given.items():
        if not isinstance(headers, dict):
            _fail(f"{system} has to be a table: [columns.{system}]")
        found[system] = {}
        for name, header in headers.items():
            id = TOTAL if name == TOTAL else course.exercise(name).id
            if not isinstance(header, str) or not header.strip() or not header.isprintable():
                _fail(f"columns.{system}.{name} = {_shown(header)} has to be the header of a column")
            if system == "canvas" and (own := _CANVAS_OWN.search(header)):
                _fail(f"Canvas computes columns with {own[0]} in their header, and imports none")
            if header in found[system].values():
                _fail(f"two columns have the header {_shown(header)}")
            found[system][id] = header
    return found


def _zone(name: Any) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except Exception:  # ValueError, KeyError, OSError or TypeError, by what is wrong with the name
        _fail(f'timezone = {_shown(name)} is not a time zone such as "Europe/Berlin"')


def _time(key: str, value: Any, zone: ZoneInfo | None) -> datetime:
    """A time with a time zone; a date is the end of that day."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(23, 59, 59))
    if not isinstance(value, datetime):
        _fail(f"{key} = {_shown(value)} has to be a time such as 2026-11-01T23:59:59+01:00")
    if value.tzinfo is None and zone is None:
        _fail(f'{key} has no time zone; add one (+01:00), or timezone = "Europe/Berlin"')
    return value if value.tzinfo is not None else value.replace(tzinfo=zone)


def _number(key: str, value: Any, most: int, *, whole: bool = False) -> Decimal:
    right = isinstance(value, int if whole else (int, Decimal)) and not isinstance(value, bool)
    if not right or not Decimal(value).is_finite() or not 0 <= value <= most:
        _fail(f"{key} = {_shown(value)} has to be {'a whole number' if whole else 'a number'} from 0 to {most}")
    return Decimal(value)


def _known(given: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}."
            raise OplabError(f"{where} has no key {key!r}; {hint}")


def _fail(message: str) -> NoReturn:
    raise OplabError(f"{message}.")


def _shown(value: Any) -> str:
    """A value as it looks in TOML, more or less, and not too long."""
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
