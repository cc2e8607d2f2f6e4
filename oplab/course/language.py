"""Which language a learner reads, and its catalogues: ``oplab/locale/zh_CN/LC_MESSAGES/04.po``.

What has no translation, or one whose English text has changed since (gettext calls it fuzzy), is shown in English.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from oplab import paths
from oplab.errors import OplabError
from oplab.files import file_state, write_atomically

NAMES = {"en": "English", "zh_CN": "中文"}
VARIABLE = "OPLAB_LANGUAGE"
RECORD = "work/.language"  # in the course's folder: the learner's choice
FOLDER = paths.PACKAGE / "locale"
_FIELD = re.compile(r"\\\{(\w+)\\\}")
# What fields of these names match; others match any text.
_SHAPES = {"file": r"\S+", "name": r"\S+", "line": r"\d+", "count": r"\d+", "total": r"\d+", "more": "| .+"}
_PAUSE = re.compile(r"[.:] ")
_LONG = 2000  # characters: no sentence of the course; matching takes its time


def chosen(root: Path | None = None) -> str:
    """The language: ``OPLAB_LANGUAGE``, else the learner's choice, else ``en``. A name that is not one of ``NAMES`` is English."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        try:
            name = ((root or paths.root()) / RECORD).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError, OplabError):
            return "en"
    return _known(name) or "en"


def choose(root: Path, name: str) -> str:
    """Remember a language for the course in ``root``, and use it from now on; its name as in ``NAMES``."""
    language = _known(name)
    if language is None:
        raise OplabError(f"The course has no language {name}.", f"It has {', '.join(NAMES)}.")
    try:
        (root / RECORD).parent.mkdir(exist_ok=True)
        write_atomically(root / RECORD, language + "\n")
    except OSError as error:
        raise OplabError(f"{RECORD} cannot be written: {error.strerror}.", "Make the folder writable.") from None
    if VARIABLE in os.environ:
        os.environ[VARIABLE] = language
    return language


def _known(name: str) -> str | None:
    """``zh_CN`` for ``zh_CN.UTF-8``, ``zh-cn`` and ``zh``."""
    plain = name.partition(".")[0].replace("-", "_").lower()
    return next((known for known in NAMES if plain in (known.lower(), known.partition("_")[0])), None)


def file_of(name: str, language: str) -> Path:
    """The catalogue ``name`` of a language: ``oplab``, ``course``, ``pages``, or a chapter's number."""
    return FOLDER / language / "LC_MESSAGES" / f"{name}.po"


def catalogue(name: str, language: str | None = None) -> Mapping[str, str]:
    """Translations by their English texts; empty for English and for a catalogue that does not exist."""
    language = language or chosen()
    if language == "en":
        return {}
    file = file_of(name, language)
    state = file_state(file)
    return _read(file, state) if state is not None else {}


@functools.lru_cache(maxsize=128)
def _read(file: Path, state: tuple[int, ...]) -> Mapping[str, str]:
    try:
        from babel.messages.pofile import read_po
    except ModuleNotFoundError:  # before the set-up has installed anything
        return {}
    with file.open("rb") as stream:
        entries = read_po(stream)
    return {str(e.id): str(e.string) for e in entries if e.id and e.string and not e.fuzzy}


def gettext(message: str, language: str | None = None, **values: object) -> str:
    """A sentence of the library in a language, by default the learner's, with values for its ``{fields}``."""
    found = catalogue("oplab", language).get(message, message)
    return found.format(**values) if values else found


def spoken(value: Any, names: tuple[str, ...], known: Mapping[str, str]) -> Any:
    """Dataclasses, also in tuples, in which the texts of the fields ``names`` are translated."""
    if not known:
        return value
    if isinstance(value, tuple):
        return tuple(spoken(entry, names, known) for entry in value)
    if not dataclasses.is_dataclass(value):
        return value
    changes = {}
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if field.name not in names:
            changes[field.name] = spoken(content, names, known)
        elif isinstance(content, tuple):
            changes[field.name] = tuple(known.get(entry, entry) for entry in content)
        else:
            changes[field.name] = known.get(content, content)
    return dataclasses.replace(value, **changes)


def told(message: str, name: str) -> str | None:
    """The translation of a finished message by the catalogue ``name``, which has ``{fields}`` for what differs; None if there is none.

    It is that of the first line, or else of what follows one of its full stops and colons: a message often begins with a place and ends
    with the likely cause. A text in ``{rest}`` has to have a translation as well; one in ``{more}`` is left out if it has none. Both are
    the last fields of their message.
    """
    first = message.partition("\n")[0]
    if len(first) > _LONG:
        return None
    ends: dict[str, str] = {}  # the shortest first: a longer one has its translation in its own
    last = ""
    for start in sorted({0, *(match.end() for match in _PAUSE.finditer(first))}, reverse=True):
        ends[first[start:]] = last = _told(first[start:], _patterns(name, chosen()), ends) or last
    return last or None


def _told(text: str, patterns: Iterable[tuple[list[str], re.Pattern[str], str]], ends: Mapping[str, str]) -> str:
    for words, pattern, translation in patterns:
        # The words first: a text that has only some of them can take a pattern with several fields long.
        if all(part in text for part in words) and (match := pattern.fullmatch(text)):
            fields = match.groupdict()
            inner = {key: ends.get(fields[key].lstrip(), "") for key in ("rest", "more") if key in fields}
            if inner.get("rest") != "":
                return translation.format(**fields | inner)
    return ""


@functools.lru_cache(maxsize=8)
def _patterns(name: str, language: str) -> list[tuple[list[str], re.Pattern[str], str]]:
    # Those with the most words first, but those that begin with a field last: it could be what the message begins with.
    field = re.compile(r"\{\w+\}")
    pairs = sorted(
        catalogue(name, language).items(), key=lambda pair: (pair[0].startswith("{"), -len(field.sub("", pair[0])))
    )
    return [
        (field.split(message), re.compile(_FIELD.sub(_any, re.escape(message))), translation)
        for message, translation in pairs
    ]


def _any(field: re.Match[str]) -> str:
    return f"(?P<{field[1]}>{_SHAPES.get(field[1], '.+?')})"
