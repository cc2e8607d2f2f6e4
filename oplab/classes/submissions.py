"""Finds the submissions of a class and the learner that each belongs to. What cannot be read costs one sentence, and not the run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from oplab.classes import archives
from oplab.classes.answers import Unreadable
from oplab.classes.archives import Reader
from oplab.classes.records import Learner
from oplab.errors import OplabError

_TIME = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:.hH-]?(\d\d)(?:[:.mM-]?(\d\d))?(Z|[+-]\d\d:?\d\d)?(?!\d)")


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
        where: a folder with one folder, zip or tar archive for each submission, named after the learner; or a path of a folder or
            archive with ``{login}`` in it.
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
        yield _found(login, "", Path(source), source, files, reader)


def _in_folder(
    folder: Path, learners: Mapping[str, Learner], files: tuple[str, ...], ignore: set[str], reader: Reader
) -> Iterator[Found | str]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError as error:
        raise OplabError(
            f"The submissions {folder} cannot be listed: {error.strerror}.",
            "Name a folder with one folder or archive for each learner, or a pattern with {login}.",
        ) from None
    seen: dict[tuple[str, str], str] = {}
    who = _Who(learners)
    for name in names:
        path = folder / name
        if name.startswith(".") or name in ("__MACOSX", "Thumbs.db", "desktop.ini") or os.path.realpath(path) in ignore:
            continue
        if not path.is_dir() and not archives.is_archive(name):
            yield _line(f"{name} in {folder.name} is neither a folder nor an archive and was left out.")
            continue
        login, label = who.handed_in(name if path.is_dir() else _stem(name))
        if not login:
            yield _line(f"{name} in {folder.name} belongs to no learner of the roster and was left out.")
            continue
        found = _found(login, label, path, name, files, reader)
        if (other := seen.setdefault((login, label), name)) != name:
            double = _line(f"{login}: {other} and {name} are both there; both are graded.")
            found = Found(login, name, found.submitted_at, name, found.files, (*found.problems, double))
        yield found


def _found(login: str, label: str, path: Path, source: str, files: tuple[str, ...], reader: Reader) -> Found:
    content = reader.read(path, files)
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
    return _moment(f"{year}-{month}-{day}T{hour}:{minute}:{second or '00'}{zone}")


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone()
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
        self._names: dict[str, str] = {}
        doubtful: set[str] = set()
        for attribute in ("login", "email", "name"):
            for login, learner in learners.items():
                name = _folded(getattr(learner, attribute))
                if name and self._names.setdefault(name, login) != login and attribute == "name":
                    doubtful.add(name)  # two learners of one name: only their logins tell them apart
        for name in doubtful - {_folded(login) for login in learners}:
            del self._names[name]

    def handed_in(self, name: str) -> tuple[str, str]:
        """The login, empty where there is none, and the label: the rest of the name."""
        folded = _folded(name)
        if folded in self._names:
            return self._names[folded], ""
        for place in range(len(name) - 1, 0, -1):  # the longest name that fits
            if name[place] in "@_- .+#,(" and (login := self._names.get(_folded(name[:place]))):
                return login, name[place:].strip("@_- .+#,()")
        return "", ""


def _folded(name: str) -> str:
    return " ".join(name.replace("_", " ").split()).casefold()
