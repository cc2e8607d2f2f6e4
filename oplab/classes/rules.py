"""The rules of a course, ``class.toml``: until when, which submission, and what counts how much. docs/class.md explains each key."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

from oplab.course.manifest import Course
from oplab.errors import OplabError

SUBMISSIONS = ("last", "best")
SYSTEMS = ("canvas", "moodle", "blackboard")
# A column of Canvas whose header holds one of these is its own, computed one: an import leaves it out.
_CANVAS_OWN = re.compile(r"(?:Current|Final) (?:Score|Points|Grade)|Override (?:Score|Grade|Status)")
TOTAL = "total"  # the key of the total's column, where an exercise's is its id
_TABLES = ("weights", "bonus", "extensions", "columns")
_KEYS = ("deadline", "timezone", "late_days", "late_penalty", "submission", "speed", "chapters", *_TABLES)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Rules:
    """How a class is graded. Without ``class.toml`` the last submission counts, with all of its points.

    Attributes:
        deadline: a submission at this time is in time; None: there is no deadline.
        late_days: how many days after the deadline a submission still counts.
        late_penalty: the percentage of its points that a submission loses for each late day that has begun.
        submission: ``last``: the newest that is not too late; ``best``: the one with most points after penalties.
        speed: whether the points of a right answer grow with its speed; if not, each right answer gets all of its points.
        chapters: the chapters that count, as ``c04``; all of them if empty.
        weights: by what a chapter's points are multiplied; 1 for one that is not listed.
        bonus: ids of exercises whose points are a bonus: the total can grow by them, and nothing is lost without them.
        bonus_most: how many points the bonus can be at most; None: there is no limit.
        extensions: a learner's own deadline, by login.
        columns: for each of :data:`SYSTEMS` the headers that its grade book has, by exercise or :data:`TOTAL`.
    """

    deadline: datetime | None = None
    late_days: int = 0
    late_penalty: Decimal = Decimal(0)
    submission: str = "last"
    speed: bool = True
    chapters: tuple[str, ...] = ()
    weights: Mapping[str, Decimal] = field(default_factory=dict)
    bonus: frozenset[str] = frozenset()
    bonus_most: Decimal | None = None
    extensions: Mapping[str, datetime] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def deadline_of(self, login: str) -> datetime | None:
        """Until when a learner can hand in; None: always."""
        return self.extensions.get(login, self.deadline)

    def days_late(self, login: str, at: datetime | None) -> int:
        """How many days after the learner's deadline have begun at a time; 0 where the time or the deadline is not known.

        Args:
            login: the learner.
            at: with a time zone.
        """
        deadline = self.deadline_of(login)
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
        if self.chapters and chapter not in self.chapters:
            return Decimal(0)
        return self.weights.get(chapter, Decimal(1))

    def strangers(self, logins: Iterable[str]) -> list[str]:
        """The logins with an extension that are not among ``logins``, sorted."""
        return sorted(set(self.extensions) - set(logins))


def load(path: Path, course: Course) -> Rules:
    """Read ``class.toml``.

    Args:
        path: the file.
        course: whose chapters and exercises it names.

    Raises:
        OplabError: it cannot be read, or something in it is wrong; the message has the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise OplabError(f"{path} cannot be read: {error.strerror}.", "Name the file with --rules.") from None
    except UnicodeDecodeError:
        raise OplabError(f"{path} cannot be read: it is not UTF-8 text.", "Save it as UTF-8.") from None
    try:
        data = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise OplabError(f"{path} is not valid TOML: {error}.", "Fix that line.") from None
    return _Reader(path, text, course).rules(data)


class _Reader:
    """Turns parsed TOML into :class:`Rules`, and finds the line of a key for messages."""

    def __init__(self, path: Path, text: str, course: Course):
        self.path, self.lines, self.course = path, text.splitlines(), course
        self.zone: ZoneInfo | None = None

    def rules(self, data: dict[str, Any]) -> Rules:
        self._known(data, _KEYS, "")
        for name in _TABLES:
            if not isinstance(data.get(name, {}), dict):
                self._fail("", name, f"{name} has to be a table: [{name}]")
        if "timezone" in data:
            self.zone = self._zone(data["timezone"])
        deadline = self._time("", "deadline", data["deadline"]) if "deadline" in data else None
        late_days = self._number("", "late_days", data.get("late_days", 0), most=365, whole=True)
        penalty = self._number("", "late_penalty", data.get("late_penalty", 0), most=100)
        if deadline is None:
            for key in ("late_days", "late_penalty"):
                if key in data:
                    self._fail("", key, f"{key} needs a deadline")
        if penalty and not late_days:
            self._fail("", "late_penalty", "late_penalty needs late_days: no late submission counts otherwise")
        submission = data.get("submission", "last")
        if submission not in SUBMISSIONS:
            self._fail("", "submission", f'submission = {_shown(submission)} has to be "last" or "best"')
        speed = data.get("speed", True)
        if not isinstance(speed, bool):
            self._fail("", "speed", f"speed = {_shown(speed)} has to be true or false")
        chapters = self._chapters(data.get("chapters", []))
        weights = self._weights(data.get("weights", {}), chapters)
        bonus, most = self._bonus(data.get("bonus", {}), chapters)
        return Rules(
            deadline=deadline,
            late_days=int(late_days),
            late_penalty=penalty,
            submission=submission,
            speed=speed,
            chapters=chapters,
            weights=weights,
            bonus=bonus,
            bonus_most=most,
            extensions=self._extensions(data.get("extensions", {}), deadline),
            columns=self._columns(data.get("columns", {})),
        )

    def _chapters(self, given: Any) -> tuple[str, ...]:
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            self._fail("", "chapters", 'chapters has to be a list such as ["c00", "c04"]')
        found = [self._chapter("", "chapters", name) for name in given]
        for name in found:
            if found.count(name) > 1:
                self._fail("", "chapters", f"chapters names {name} twice")
        return tuple(chapter.id for chapter in self.course.chapters if chapter.id in found)

    def _weights(self, given: dict[str, Any], chapters: tuple[str, ...]) -> dict[str, Decimal]:
        weights: dict[str, Decimal] = {}
        for name, value in given.items():
            id = self._chapter("weights", name, name)
            if chapters and id not in chapters:
                self._fail("weights", name, f"{name} has a weight, but chapters does not list it")
            if id in weights:
                self._fail("weights", name, f"{id} has two weights")
            weights[id] = self._number("weights", name, value, most=1000)
        return weights

    def _bonus(self, given: dict[str, Any], chapters: tuple[str, ...]) -> tuple[frozenset[str], Decimal | None]:
        self._known(given, ("exercises", "most"), "bonus")
        ids = given.get("exercises", [])
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
            self._fail("bonus", "exercises", 'exercises has to be a list such as ["c07.knn_query", "c16"]')
        if given and not ids:
            self._fail("bonus", "exercises", "the table bonus needs exercises")
        found: set[str] = set()
        for id in ids:
            try:
                found.update(exercise.id for exercise in self.course.select([id]))
            except OplabError as error:
                self._fail("bonus", "exercises", error.message.rstrip("."), error.fix)
        if chapters:
            for id in sorted(found):
                if id.partition(".")[0] not in chapters:
                    self._fail("bonus", "exercises", f"{id} is a bonus, but chapters does not list its chapter")
        return frozenset(found), self._number("bonus", "most", given["most"]) if "most" in given else None

    def _extensions(self, given: dict[str, Any], deadline: datetime | None) -> dict[str, datetime]:
        found = {}
        for login, value in given.items():
            if deadline is None:
                self._fail("extensions", login, f"{login} has an extension, and there is no deadline")
            if isinstance(value, (datetime, date)):
                found[login] = self._time("extensions", login, value)
            else:
                found[login] = deadline + int(self._number("extensions", login, value, most=365, whole=True)) * _DAY
            if found[login] < deadline:
                self._fail("extensions", login, f"the extension of {login} ends before the deadline")
        return found

    def _columns(self, given: dict[str, Any]) -> dict[str, dict[str, str]]:
        self._known(given, SYSTEMS, "columns")
        found: dict[str, dict[str, str]] = {}
        for system, headers in given.items():
            table = f"columns.{system}"
            if not isinstance(headers, dict):
                self._fail("columns", system, f"{system} has to be a table: [{table}]")
            found[system] = {}
            for name, header in headers.items():
                try:
                    id = TOTAL if name == TOTAL else self.course.exercise(name).id
                except OplabError as error:
                    self._fail(table, name, error.message.rstrip("."), error.fix)
                if not isinstance(header, str) or not header.strip() or not header.isprintable():
                    self._fail(table, name, f"{name} = {_shown(header)} has to be the header of a column")
                if system == "canvas" and (own := _CANVAS_OWN.search(header)):
                    self._fail(table, name, f"Canvas computes columns with {own[0]} in their header, and imports none")
                if header in found[system].values():
                    self._fail(table, name, f"two columns have the header {_shown(header)}")
                found[system][id] = header
        return found

    def _chapter(self, table: str, key: str, name: str) -> str:
        try:
            return self.course.chapter(name).id
        except OplabError as error:
            self._fail(table, key, error.message.rstrip("."), error.fix)

    def _zone(self, name: Any) -> ZoneInfo:
        try:
            return ZoneInfo(name)
        except Exception:  # ValueError, KeyError, OSError or TypeError, by what is wrong with the name
            self._fail("", "timezone", f'timezone = {_shown(name)} is not a time zone such as "Europe/Berlin"')

    def _time(self, table: str, key: str, value: Any) -> datetime:
        """A time with a time zone; a date is the end of that day."""
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time(23, 59, 59))
        if not isinstance(value, datetime):
            self._fail(table, key, f"{key} = {_shown(value)} has to be a time such as 2026-11-01T23:59:59+01:00")
        if value.tzinfo is None:
            if self.zone is None:
                self._fail(table, key, f'{key} has no time zone; add one (+01:00), or timezone = "Europe/Berlin"')
            value = value.replace(tzinfo=self.zone)
        return value

    def _number(self, table: str, key: str, value: Any, *, most: int | None = None, whole: bool = False) -> Decimal:
        right = isinstance(value, int if whole else (int, Decimal)) and not isinstance(value, bool)
        if not right or not Decimal(value).is_finite() or value < 0 or (most is not None and value > most):
            kind = "a whole number" if whole else "a number"
            limits = f"from 0 to {most}" if most is not None else "of at least 0"
            self._fail(table, key, f"{key} = {_shown(value)} has to be {kind} {limits}")
        return Decimal(value)

    def _known(self, given: dict[str, Any], known: tuple[str, ...], table: str) -> None:
        for key in given:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
                self._fail(table, key, f"{f'the table {table}' if table else 'it'} has no key {key!r}{hint}")

    def _fail(self, table: str, key: str, message: str, fix: str = "") -> NoReturn:
        end = "" if message.endswith("?") else "."
        raise OplabError(f"{self.path.name}, line {self._line(table, key)}: {message}{end}", fix or "Fix that line.")

    def _line(self, table: str, key: str) -> int:
        """The line of a key in a table, of the table's header if the key is not there, else 1."""
        inside, header = table == "", 1
        name = rf"[\"']?{re.escape(key)}[\"']?"
        for number, line in enumerate(self.lines, start=1):
            text = line.strip()
            if found := re.match(r"\[+\s*([^\]]*?)\s*\]+", text):
                here = found[1].replace('"', "").replace("'", "").replace(" ", "")
                inside = here == table
                if inside or here == f"{table}.{key}".lstrip("."):
                    header = number
                if here == f"{table}.{key}".lstrip("."):
                    return number
            elif inside and re.match(rf"{name}\s*[.=]", text):
                return number
            elif re.match(rf"{re.escape(table)}\s*(\.\s*{name}\s*=|=\s*\{{.*{name}\s*=)", text) and table:
                return number
        return header


def _shown(value: Any) -> str:
    """A value as it looks in TOML, more or less, and not too long."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
