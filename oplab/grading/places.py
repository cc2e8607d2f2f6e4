"""Places in a learner's files that a message names: ``c04_x.py, line 12`` and ``exercises/csrc/c12_x.cpp:31:18``.

They are what :mod:`oplab.checks.errors`, :mod:`oplab.toolchain.diagnostics` and :mod:`oplab.toolchain.findings` write.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from oplab.course.manifest import NUMBER
from oplab.grading.results import Outcome

_FOLDER = r"(?P<folder>(?:[^\s\"'`():,;/]*/)*)"
_NAME = rf"(?P<name>c{NUMBER}_[a-z0-9_]+\.(?:py|cpp))"
_PLACE = re.compile(
    rf"(?<![\w./-]){_FOLDER}{_NAME}(?:\"?, line (?P<line>\d{{1,7}})|:(?P<at>\d{{1,7}})(?::\d+)?)?(?![\w/])"
)
_FOLDERS = {"": "exercises", "exercises": "exercises", "solutions": "solutions"}
_AROUND = re.compile(r"\s*\(\0\)|^\0: (?:error: )?")  # a place that only says where


class Place(NamedTuple):
    """A line of a file that a text names.

    Attributes:
        file: relative to the course, ``exercises/c04_aten_symbolic.py``.
        line: counted from 1.
        start: where the place begins in the text.
        end: where it ends.
        message: the line of the text that names it; without the place where that is no part of a sentence.
    """

    file: str
    line: int
    start: int
    end: int
    message: str


def places(text: str) -> list[Place]:
    """The places in files of exercises that a text names, in its order.

    A file that is named without a line is a place only with its whole path, ``exercises/c04_x.py``: its first line. A file in
    another folder, such as the checks of the same chapter or a header, is not a place of a learner.
    """
    text = text.replace("\0", " ")
    found = []
    for match in _PLACE.finditer(text):
        line = int(match["line"] or match["at"] or 1)
        file = _file(match["folder"], match["name"])
        named = match["line"] or match["at"] or f"{match['folder']}{match['name']}" == file
        if file is None or line < 1 or not named:
            continue
        start, end = match.span()
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        last = len(text) if last < 0 else last
        message = _AROUND.sub("", f"{text[first:start]}\0{text[end:last]}".strip(), count=1)
        found.append(Place(file, line, start, end, message.replace("\0", text[start:end]).strip()))
    return found


def of_outcome(outcome: Outcome) -> list[Place]:
    """The places that the messages of an outcome name: of its failed checks, then of its own message; each place once."""
    texts = [check.message for check in outcome.checks if not check.passed]
    found: dict[tuple[str, int], Place] = {}
    for text in (*texts, outcome.message):
        for place in places(text):
            found.setdefault((place.file, place.line), place)
    return list(found.values())


def _file(folder: str, name: str) -> str | None:
    """The file's path in the course, or None for a file that is in none of the folders of answers."""
    parts = folder.rstrip("/").split("/") if folder else []
    cpp = name.endswith(".cpp")
    if parts and parts[-1] == "csrc":
        if not cpp:
            return None
        parts.pop()
    elif parts and cpp:
        return None
    track = _FOLDERS.get(parts[-1] if parts else "")
    if track is None:
        return None
    return f"{track}/csrc/{name}" if cpp else f"{track}/{name}"
