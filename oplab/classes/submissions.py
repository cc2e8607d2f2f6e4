"""Finds the submissions of a class and the learner that each belongs to. What cannot be read costs one sentence, and not the run."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from oplab.classes import archives
from oplab.classes.answers import Unreadable
from oplab.classes.archives import Reader
from oplab.classes.records import Learner
from oplab.errors import OplabError, first_line

_TIME = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:.hH-]?(\d\d)(?:[:.mM-]?(\d\d))?(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?(?!\d)"
)
# The name that Canvas and Moodle put before what belongs to one submission, and how it is told from others.
_NAMED = re.compile(r"(.+?)_((?:late_)?\d+)_(?:\d+_.|text\.html|link\.html|assignsubmission_)", re.IGNORECASE)
_BLACKBOARD = re.compile(r"(.+?)_attempt_(\d{4}(?:-\d\d){5})(?!\d)")
_GRADESCOPE = "submission_metadata.yml"


@dataclass(frozen=True)
class Found:
    """One submission as it was found.

    Attributes:
        learner: the login.
        label: what follows the login in the entry's name.
        submitted_at: with a time zone; None where the name does not tell.
        source: the entry's name.
        files: by the course's name for the file: its text, or why there is none.
        problems: sentences that name learner and file.
    """

    learner: str
    label: str
    submitted_at: datetime | None
    source: str
    files: Mapping[str, str | Unreadable]
    problems: tuple[str, ...]


def scan(
    where: str, learners: Mapping[str, Learner], files: Iterable[str], ignore: Iterable[Path] = ()
) -> Iterator[Found | str]:
    """The submissions in ``where``, one after the other; a text is a sentence about an entry that belongs to no learner.

    Args:
        where: a folder with one folder, zip or tar archive, or single files, for each submission, named after the learner or as
            Canvas, Moodle, Blackboard and Gradescope name them; or a path of a folder or archive with ``{login}`` in it.
        learners: the roster, by login.
        files: the course's answer files, relative to ``exercises/``.
        ignore: entries that are not submissions, such as the roster.

    Raises:
        OplabError: ``where`` is not a folder, or a pattern to which no learner has a submission.
    """
    files = tuple(files)
    with Reader() as reader:
        if "{login}" in where and not Path(where).exists():
            found = _by_pattern(where, learners, files, reader)
        else:
            found = _in_folder(Path(where), learners, files, {os.path.realpath(path) for path in ignore}, reader)
        yield from found


def _by_pattern(
    pattern: str, learners: Mapping[str, Learner], files: tuple[str, ...], reader: Reader
) -> Iterator[Found]:
    sources = {login: source for login in learners if os.path.lexists(source := pattern.replace("{login}", login))}
    if not sources:
        fix = "Name a folder, or a path with {login} in it. Clone repositories before."
        raise OplabError(f"No learner of the roster has a submission at {pattern}.", fix)
    for login, source in sources.items():
        yield _found(login, "", [Path(source)], source, files, reader)


def _in_folder(
    folder: Path, learners: Mapping[str, Learner], files: tuple[str, ...], ignore: set[str], reader: Reader
) -> Iterator[Found | str]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError as error:
        raise OplabError(
            f"The submissions {folder} cannot be listed: {error.strerror}.",
            "Name the folder that a platform's download unpacks to, or a path with {login} in it.",
        ) from None
    who = _Who(learners)
    export = _gradescope(folder / _GRADESCOPE, who) if _GRADESCOPE in names else {}
    groups: dict[tuple[str, str, str], list[Path]] = {}
    for name in names:
        path = folder / name
        if name.startswith(".") or name in ("__MACOSX", "Thumbs.db", "desktop.ini", _GRADESCOPE):
            continue
        if os.path.realpath(path) in ignore:
            continue
        packed = path.is_dir() or archives.is_archive(name)
        answer = "" if packed else archives.answer_in(name, files)
        stem = name if path.is_dir() else name[: name.rindex(Path(answer).stem)] if answer else _stem(name)
        owners = export.get(name) or [who.handed_in(name, stem)]
        if not (packed or answer or owners[0][2]):
            yield _line(f"{name} in {folder.name} is neither a folder nor an archive nor an answer, and was left out.")
            continue
        for login, label, part in owners:
            if login:
                groups.setdefault((login, label, "" if part or answer else name), []).append(path)
            else:
                yield _line(
                    f"{name} in {folder.name} belongs to no learner of the roster, or to several. It was left out."
                )
    seen: dict[tuple[str, str], str] = {}
    for (login, label, _), paths in groups.items():
        source = paths[0].name + (f" and {len(paths) - 1} more" if paths[1:] else "")
        found = _found(login, label, paths, source, files, reader)
        if (other := seen.setdefault((login, label), source)) != source:
            double = _line(f"{login}: {other} and {source} are both there; both are graded.")
            found = Found(login, source, found.submitted_at, source, found.files, (*found.problems, double))
        yield found


def _gradescope(path: Path, who: _Who) -> dict[str, list[tuple[str, str, bool]]]:
    """By folder of Gradescope's export, who handed it in (a group: several), when, and that it is a submission of its own."""
    try:  # all values are read as texts
        entries = yaml.load(path.read_bytes(), getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        found: dict[str, list[tuple[str, str, bool]]] = {}
        for name, entry in entries.items():
            people = [[person.get(key) for key in (":sid", ":email", ":name")] for person in entry[":submitters"]]
            found[name] = [(who.one_of(*names), str(entry.get(":created_at", "")), False) for names in people]
        return found
    except (OSError, yaml.YAMLError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise OplabError(
            f"{path} is not as Gradescope writes it ({first_line(error)}).", "Export the submissions again."
        ) from None


def _found(login: str, label: str, paths: list[Path], source: str, files: tuple[str, ...], reader: Reader) -> Found:
    content = reader.read(paths, files)
    problems = tuple(_line(f"{login}: {source}: {end}") for end in content.problems)
    return Found(login, label, time_in(label), source, content.files, problems)


def _line(text: str) -> str:
    """The text without what a name from outside could do to a terminal."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def time_in(label: str) -> datetime | None:
    """The time in a label such as ``2026-11-01T18-00`` or ``20261101-180000Z``; without a zone it is this computer's."""
    match = _TIME.search(label)
    if match is None:
        return None
    year, month, day, hour, minute, second, zone = match.groups()
    zone = "+00:00" if zone == "Z" else zone or ""
    try:
        return datetime.fromisoformat(f"{year}-{month}-{day}T{hour}:{minute}:{second or '00'}{zone}").astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _stem(name: str) -> str:
    for suffix in sorted(archives.SUFFIXES, key=len, reverse=True):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


class _Who:
    """Finds the learner that the name of a submission belongs to: it begins with a login, an e-mail address or a name."""

    def __init__(self, learners: Mapping[str, Learner]):
        self._logins: dict[str, str] = {}
        self._people: dict[str, str] = {}  # by squeezed name; empty where several learners have it
        for login in learners:
            self._logins[_folded(login)] = login
        for login, learner in learners.items():
            self._logins.setdefault(_folded(learner.email), login)
            words = re.split(r"[\s,]+", learner.name)
            for name in {_squeezed("".join(words[place:] + words[:place])) for place in range(len(words))}:
                self._people[name] = "" if self._people.get(name, login) != login else login
        for known in (self._logins, self._people):
            known.pop("", None)  # those of whom the roster has no address or name

    def handed_in(self, name: str, stem: str) -> tuple[str, str, bool]:
        """The login, empty where there is none; the label; and whether the entry is one of the files of a submission on a platform.

        ``stem`` is the name without what says which file it is. What follows the learner in it is the label.
        """
        if match := _NAMED.match(name):  # before logins: one that looks like the name can be another learner's
            if (login := self._people.get(_squeezed(match[1]))) is not None:
                return login, match[2], True
        elif match := _BLACKBOARD.match(name):
            words = match[1].split("_")
            for place in range(1, len(words)):  # the longest login that fits
                if login := self._logins.get(_folded("_".join(words[place:]))):
                    return login, match[2], True
        for place in range(len(stem), 0, -1):  # the longest name that fits
            if (stem[place:] or " ")[0] in "@_- .+#,(" and (login := self.one_of(stem[:place])):
                return login, stem[place:].strip("@_- .+#,()"), False
        return "", "", False

    def one_of(self, *names: str | None) -> str:
        """The login of the learner with one of these logins, e-mail addresses or names; empty where there is none."""
        found = (self._logins.get(_folded(name)) or self._people.get(_squeezed(name)) for name in names if name)
        return next(filter(None, found), "")


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).replace("_", " ").split()).casefold()


def _squeezed(name: str) -> str:
    """Letters and digits alone, without accents: Canvas writes ``Ó Sé, Zoë`` as ``ósézoë``."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", name))).casefold()
