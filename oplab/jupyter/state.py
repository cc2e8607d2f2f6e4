"""What the panel shows: the course, the progress and what runs, as plain values (docs/jupyter.md describes them)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from oplab.course import answers, copies, stubs
from oplab.course.language import NAMES, chosen
from oplab.course.manifest import Course, Exercise
from oplab.files import file_state
from oplab.grading import card, last, places
from oplab.grading import progress as progressing
from oplab.grading.overview import overview
from oplab.grading.service import Service
from oplab.grading.text import word
from oplab.jupyter.map import chapter_map
from oplab.updates import delivery
from oplab.updates import update as updates

VERSION = 1
T = TypeVar("T")


class Paths:
    """Where the course is in Jupyter.

    Args:
        base_url: of the server, ending with a slash.

    Attributes:
        inside: whether Jupyter can open the course's files.
    """

    def __init__(self, course: Path, root: Path, base_url: str):
        self._base_url = base_url
        try:
            self._prefix: Path | None = course.resolve().relative_to(root.resolve())
        except ValueError:
            self._prefix = None
        self.inside = self._prefix is not None

    def path(self, file: str) -> str | None:
        """A file of the course as Jupyter calls it; None where it is outside of Jupyter's root folder."""
        return (self._prefix / file).as_posix() if self._prefix is not None else None

    def href(self, file: str, line: int) -> str | None:
        """The address of a file of the course in JupyterLab."""
        path = self.path(file)
        return f"{self._base_url}lab/tree/{quote(path)}" if path is not None else None


class Files:
    """Values made from files, which are made again only when their file has changed."""

    def __init__(self) -> None:
        self._made: dict[Any, tuple[Any, Any]] = {}

    def value(self, path: Path, make: Callable[[], T], *key: Any) -> T:
        """What ``make`` returns, or has returned since the file ``path`` last changed; ``key`` tells several values apart."""
        state = file_state(path)
        known = self._made.get((path, *key))
        if known is None or known[0] != state:
            known = self._made[path, *key] = (state, make())
        return known[1]


def course_state(
    course: Course, where: Paths, service: Service, files: Files, problems: Sequence[str]
) -> dict[str, Any]:
    """The whole state.

    Args:
        files: keeps what was read from files.
    """
    told: list[str] = []
    build = course.root / "build"
    state = overview(course, progressing.load(build, told.append))
    copied = copies.states(course)
    for chapter, shown in zip(course.chapters, state["chapters"], strict=True):
        # The learner's copy; the lesson itself where there is none, as in a folder that cannot be written.
        missing = copied[chapter.stem] == "missing"
        lesson = chapter.notebook if missing else copies.path(course, chapter).relative_to(course.root).as_posix()
        shown["lesson"], shown["copy"] = where.path(lesson), copied[chapter.stem]
        del shown["notebook"]
        for exercise, entry in zip(chapter.exercises, shown["exercises"], strict=True):
            written = file_state(course.root / entry["file"])
            entry["file"], entry["written"] = where.path(entry["file"]), written[2] / 1e9 if written else 0
            entry["line"] = _line(course, exercise, files)
            entry["headline"] = _headline(build, exercise, files)
    writable = is_writable(course)
    found = [*problems, *told, *updates.problems(course)]
    if not writable:
        found.append(f"The folder {course.root} cannot be written, so progress and answers are not saved.")
    return {
        **empty(service.saves),
        **state,
        "version": VERSION,
        "inside": where.inside,
        "writable": writable,
        "grader": {"state": service.grader, "message": service.problem if service.grader == "failed" else ""},
        "running": [{"id": id, "since": since} for id, since in service.running.items()],
        "queued": service.queued,
        "map": files.value(course.root / "course.toml", lambda: chapter_map(course), "map"),
        "problems": found,
    }


def empty(check_on_save: bool, problems: Sequence[str] = ()) -> dict[str, Any]:
    """The state where there is no course to show."""
    return {
        "version": VERSION,
        "extension": delivery.release(),
        "build": installed_build(),
        "title": "Operator Lab",
        "language": chosen(),
        "languages": NAMES,
        "inside": False,
        "writable": False,
        "check_on_save": check_on_save,
        "grader": {"state": "off", "message": ""},
        "running": [],
        "queued": [],
        "points": 0,
        "max_points": 0,
        "passed": 0,
        "total": 0,
        "next": None,
        "map": {"width": 0, "height": 0, "nodes": [], "edges": []},
        "chapters": [],
        "problems": list(problems),
    }


def installed_build() -> str:
    """The file that a page which is loaded now starts the panel from; its name has a digest. Empty where no panel is installed."""
    package = Path(sys.prefix, "share", "jupyter", "labextensions", "oplab-lab", "package.json")
    try:
        return str(json.loads(package.read_text(encoding="utf-8"))["jupyterlab"]["_build"]["load"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def outcome_state(course: Course, where: Paths, entry: dict[str, Any]) -> dict[str, Any]:
    """What the panel shows of the last check of an exercise.

    Args:
        entry: what :func:`oplab.grading.last.load` has found.
    """
    outcome, exercise = last.to_outcome(entry), course.exercise(entry["id"])
    shown = {key: value for key, value in entry.items() if key != "answer"}
    return {
        **shown,
        "state": word(outcome.status),
        "stale": bool(outcome.answer) and outcome.answer != _digest(course, exercise),
        "html": card.card_html(outcome, href=where.href),
        "places": [
            {"file": path, "line": place.line, "message": place.message}
            for place in places.of_outcome(outcome)
            if (path := where.path(place.file)) is not None
        ],
    }


def is_writable(course: Course) -> bool:
    """Whether progress and answers can be written."""
    build, exercises = course.root / "build", course.root / "exercises"
    return all(os.access(folder if folder.exists() else course.root, os.W_OK) for folder in (build, exercises))


def _line(course: Course, exercise: Exercise, files: Files) -> int:
    path = course.root / "exercises" / exercise.file

    def find() -> int:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return 1
        return stubs.line_of(text, exercise.id, exercise.name) or 1

    return files.value(path, find, exercise.id)


def _headline(build: Path, exercise: Exercise, files: Files) -> str:
    def find() -> str:
        entry = last.load(build, exercise.id)
        lines = entry["message"].strip().splitlines() if entry is not None else []
        return lines[0] if lines else ""

    return files.value(build / last.FOLDER / f"{exercise.id}.json", find)


def _digest(course: Course, exercise: Exercise) -> str:
    try:
        text = (course.root / "exercises" / exercise.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return answers.digests(text, course.in_file(exercise.file))[exercise.id]
