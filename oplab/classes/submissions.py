"""Finds the submissions of a class and the learner that each belongs to. What cannot be read costs one sentence, and not the run."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import yaml

from oplab.classes import archives
from oplab.classes.archives import Reader
from oplab.classes.extraction import Unreadable
from oplab.classes.records import Learner
from oplab.errors import OplabError, first_line

_TIME = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:.hH-]?(\d\d)(?:[:.mM-]?(\d\d))?(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?(?!\d)"
)
# The name that a platform puts before what belongs to one submission, and how it is told from others.
CANVAS = re.compile(r"(.+?)_((?:late_)?\d+)_(?:\d+_.|text\.html|link\.html)", re.IGNORECASE)
MOODLE = re.compile(r"(.+?)_(\d+)_assignsubmission_")
_BLACKBOARD = re.compile(r"(.+?)_attempt_(\d{4}(?:-\d\d){5})(?!\d)")
_GRADESCOPE = "submission_metadata.yml"
_Logins = tuple[str, ...]  # one, or those of a group


@dataclass(frozen=True)
class Found:
    """One submission as it was found: as :class:`oplab.classes.records.Submission`, with files in place of tasks.

    ``files`` holds, by the course's name for the file, its text, or why there is none.
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
        files: the course's answer files, relative to ``exercises/``.
        ignore: entries that are not submissions, such as the roster.
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
        fix = "Name a folder, or a path with {login} in it. Clone the repositories first."
        raise OplabError(f"No learner of the roster has a submission at {pattern}.", fix)
    who = _Who(learners)
    for login, source in sources.items():
        yield from _found(who.one_of(login), "", [Path(source)], source, files, reader)


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
    groups: dict[tuple[_Logins, str, str], list[tuple[bool, Path]]] = {}
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
        for logins, label, part in owners:
            if not logins:
                yield _line(
                    f"{name} in {folder.name} belongs to no learner of the roster, or to several. It was left out."
                )
                continue
            entry = not (packed or answer), path
            groups.setdefault((logins, label, "" if part or answer else name), []).append(entry)
    seen: dict[tuple[_Logins, str], str] = {}
    for (logins, label, _), entries in groups.items():
        paths = [path for _, path in entries]
        # Feedback takes this name: that of an answer, if there is one.
        source = min(entries)[1].name + (f" and {len(paths) - 1} more" if paths[1:] else "")
        for found in _found(logins, label, paths, source, files, reader):
            if (other := seen.setdefault((logins, label), source)) != source:
                double = _line(f"{found.learner}: {other} and {source} are both there; both are graded.")
                found = replace(found, label=source, problems=(*found.problems, double))
            yield found


def _gradescope(path: Path, who: _Who) -> dict[str, list[tuple[_Logins, str, bool]]]:
    """By folder of Gradescope's export, who handed it in (a group: several), when, and that it is a submission of its own."""
    try:  # all values are read as texts
        entries = yaml.load(path.read_bytes(), getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        found: dict[str, list[tuple[_Logins, str, bool]]] = {}
        for name, entry in entries.items():
            people = [[person.get(key) for key in (":sid", ":email", ":name")] for person in entry[":submitters"]]
            owners = dict.fromkeys(who.one_of(*names) for names in people)
            found[name] = [(logins, str(entry.get(":created_at", "")), False) for logins in owners]
        return found
    except (OSError, yaml.YAMLError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise OplabError(
            f"{path} is not as Gradescope writes it ({first_line(error)}).", "Export the submissions again."
        ) from None


def _found(
    logins: _Logins, label: str, paths: list[Path], source: str, files: tuple[str, ...], reader: Reader
) -> Iterator[Found]:
    content = reader.read(paths, files)
    for login in logins:
        problems = tuple(_line(f"{login}: {source}: {end}") for end in content.problems)
        yield Found(login, label, time_in(label), source, content.files, problems)


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
    """Finds the learners that the name of a submission belongs to: it begins with a login, an e-mail address, or a name, of one of them or
    of their group. All members of a group have what one of them handed in.
    """

    def __init__(self, learners: Mapping[str, Learner]):
        self._people: dict[str, _Logins] = {}  # by squeezed name; empty where several learners have it
        groups: dict[str, _Logins] = {}
        for login, learner in learners.items():
            if learner.group:
                groups[learner.group] = (*groups.get(learner.group, ()), login)
        self._logins = {_folded(login): groups.get(one.group, (login,)) for login, one in learners.items()}
        for login, learner in learners.items():
            together = self._logins[_folded(login)]
            self._logins.setdefault(_folded(learner.email), together)
            self._add(learner.group, together)
            words = re.split(r"[\s,]+", learner.name)
            for name in (" ".join(words[place:] + words[:place]) for place in range(len(words))):
                self._add(name, together)
                if learner.group:  # how Moodle calls each member's copy
                    self._add(f"{learner.group}-{name}", (login,))
        for known in (self._logins, self._people):
            known.pop("", None)  # those of whom the roster has no address or name

    def _add(self, name: str, logins: _Logins) -> None:
        if self._people.setdefault(_squeezed(name), logins) != logins:
            self._people[_squeezed(name)] = ()

    def handed_in(self, name: str, stem: str) -> tuple[_Logins, str, bool]:
        """The logins, none where no one has the name; the label; and whether the entry is one of the files of a submission on a platform.

        ``stem`` is the name without what says which file it is. What follows the learner in it is the label.
        """
        if match := MOODLE.match(name) or CANVAS.match(
            name
        ):  # before logins: one that looks like the name can be another learner's
            if (logins := self._people.get(_squeezed(match[1]))) is not None:
                return logins, match[2], True
        elif match := _BLACKBOARD.match(name):
            words = match[1].split("_")
            for place in range(1, len(words)):  # the longest login that fits
                if logins := self._logins.get(_folded("_".join(words[place:]))):
                    return logins, match[2], True
        for place in range(len(stem), 0, -1):  # the longest name that fits
            if (stem[place:] or " ")[0] in "@_- .+#,(" and (logins := self.one_of(stem[:place])):
                return logins, stem[place:].strip("@_- .+#,()"), False
        return (), "", False

    def one_of(self, *names: str | None) -> _Logins:
        """The learners with one of these logins, e-mail addresses or names; none where there is none."""
        found = (self._logins.get(_folded(name)) or self._people.get(_squeezed(name)) for name in names if name)
        return next(filter(None, found), ())


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).replace("_", " ").split()).casefold()


def _squeezed(name: str) -> str:
    """Letters and digits alone, without accents: Canvas writes ``Ó Sé, Zoë`` as ``ósézoë``."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", name))).casefold()
