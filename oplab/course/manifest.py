"""The manifest ``course.toml`` as typed, validated objects.

Each chapter has a *stem* (``04_aten_symbolic``) and each exercise an id (``c04.asinh``). Every other place in the course is
derived from these two; :class:`Chapter` says how.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from oplab import paths
from oplab.course import renaming
from oplab.course.language import catalogue, chosen, spoken
from oplab.errors import OplabError

KINDS = ("python", "cpp", "ort", "torch", "openvino", "host")
PRELOADS = ("dynamo", "export", "scipy")
# A chapter's number as it occurs in stems and ids: two digits, or A and a digit for an appendix.
NUMBER = r"(?:\d\d|A\d)"
_STEM = re.compile(rf"{NUMBER}_[a-z0-9_]+")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ENDS = re.compile(r"[.!?](?:\s|$)")  # the end of a sentence; not the point of a number or of a name
ABLE = 120  # characters of a chapter's `able`: two lines of the panel in JupyterLab


class SeveralExercises(OplabError):
    """A name without a chapter that exercises of several chapters have.

    Attributes:
        name: the name.
        ids: the exercises that it could be.
    """

    def __init__(self, name: str, ids: list[str]):
        chapters = f"{', '.join(id.split('.')[0] for id in ids[:-1])} and {ids[-1].split('.')[0]}"
        super().__init__(f"Chapters {chapters} have an exercise {name}.", f"Name one: {' or '.join(ids)}.")
        self.name, self.ids = name, ids

    def __reduce__(self) -> tuple:  # it crosses process boundaries
        return type(self), (self.name, self.ids)


@dataclass(frozen=True)
class Limits:
    """What one run of a learner's code may use.

    Attributes:
        wall: seconds on the clock.
        cpu: seconds of processor time.
        memory_mb: megabytes of memory beyond what the preloaded libraries take.
        output_kb: kilobytes printed to stdout and stderr together.
        files: open files.
    """

    wall: float = 20.0
    cpu: float = 20.0
    memory_mb: int = 4096
    output_kb: int = 1024
    files: int = 256


@dataclass(frozen=True)
class Exercise:
    """One thing that a learner writes.

    Attributes:
        name: the function's name (``asinh``), for C++ the last part of the file's name.
        chapter: the chapter's stem.
        goal: one line that says what the code has to do.
        points: what it is worth.
        difficulty: 1 (read and fill in) to 5 (an afternoon).
        minutes: how long it takes most learners.
        deeper: whether the way to the last chapter leaves it out; it is offered after the core path.
        repair: whether something that is given is wrong, and the learner finds or fixes it.
        hints: two or more, each more concrete than the one before.
        kind: ``python``, or for C++ ``cpp`` (a library of C functions), ``ort`` (ONNX Runtime kernel), ``torch`` (stable-ABI
            operator), ``openvino`` (extension of OpenVINO) or ``host`` (a program on ONNX Runtime's C++ API).
        preload: what the grading server warms up before it starts, for example ``dynamo``.
        limits: what one run may use.
        speed: whether a right answer's points grow with its speed (:meth:`oplab.checks.judge.Judge.award`).
        pieces: whether the check finds ``pieces.so`` in its scratch folder, the kernel compiled for
            :class:`oplab.checks.schedules.WatchedSession`.
        not_allowed: a deny-list of what contains the answer: modules that the function may not use (``oplab.ops.reference``), and
            files of ``csrc`` that C++ may not include (``csrc/common/knn*.h``). The stub names them.
    """

    name: str
    chapter: str
    goal: str
    points: int
    difficulty: int
    minutes: int
    hints: tuple[str, ...]
    kind: str = "python"
    preload: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    speed: bool = False
    pieces: bool = False
    not_allowed: tuple[str, ...] = ()
    deeper: bool = False
    repair: bool = False

    @property
    def id(self) -> str:
        """Chapter and name, as in every message: ``c04.asinh``."""
        return f"c{self.chapter[:2]}.{self.name}"

    @property
    def file(self) -> str:
        """The learner's file, relative to ``exercises/``, ``solutions/`` or a submission."""
        if self.kind == "python":
            return f"c{self.chapter}.py"
        return f"csrc/c{self.chapter[:2]}_{self.name}.cpp"

    @property
    def language(self) -> str:
        """What it is written in: ``python`` or ``cpp``."""
        return "python" if self.kind == "python" else "cpp"


@dataclass(frozen=True)
class Chapter:
    """One chapter.

    Attributes:
        stem: number and name, ``04_aten_symbolic``.
        title: for people.
        minutes: how long the sections that are not deeper and their exercises take most learners. 0: the whole chapter is deeper.
        exercises: in the order of the manifest.
        deeper: the titles of the sections that the way to the last chapter leaves out.
        deeper_minutes: how long these sections and their exercises take on top of :attr:`minutes`.
        builds_on: the ids (``c04``) of the chapters whose content its core needs: earlier chapters, or appendices. A chapter that
            one of these needs itself is left out.
        able: what one can do after it, in one sentence.
    """

    stem: str
    title: str
    minutes: int
    exercises: tuple[Exercise, ...]
    deeper: tuple[str, ...] = ()
    deeper_minutes: int = 0
    builds_on: tuple[str, ...] = ()
    able: str = ""

    @property
    def id(self) -> str:
        """What commands call it: ``c04``."""
        return f"c{self.stem[:2]}"

    @property
    def appendix(self) -> bool:
        """Whether it teaches what a learner may already know, and so is outside of the course's core path."""
        return self.stem.startswith("A")

    @property
    def module(self) -> str:
        """The name that the chapter's exercises, solutions and checks share: ``c04_aten_symbolic``."""
        return f"c{self.stem}"

    @property
    def notebook(self) -> str:
        """Its notebook, relative to the course."""
        return f"notebooks/{self.stem}.ipynb"

    @property
    def points(self) -> int:
        """The points of all of its exercises."""
        return sum(exercise.points for exercise in self.exercises)


@dataclass(frozen=True)
class Course:
    """A course, as its manifest describes it.

    Attributes:
        root: the folder of ``course.toml``.
        title: for people.
        chapters: in the order of their numbers.
        renamed: the ids of exercises that had other ones, as {old: new}.
        solutions: when a learner may read a reference: ``after_hints``, for half of the points, or only ``after_pass``.
    """

    root: Path
    title: str
    chapters: tuple[Chapter, ...]
    renamed: dict[str, str] = field(default_factory=dict, hash=False)
    solutions: str = "after_hints"

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        """All exercises, in the order of the chapters."""
        return tuple(exercise for chapter in self.chapters for exercise in chapter.exercises)

    @property
    def path(self) -> tuple[Exercise, ...]:
        """All exercises in the order in which they are offered: the core path, then what is deeper, then the appendices."""

        def late(exercise: Exercise) -> tuple[bool, bool]:
            return self.chapter(exercise.chapter).appendix, exercise.deeper

        return tuple(sorted(self.exercises, key=late))

    def chapter(self, name: str) -> Chapter:
        """The chapter with this stem (``04_aten_symbolic``), id (``c04``) or module (``c04_aten_symbolic``)."""
        if chapter := self._chapter(name):
            return chapter
        raise OplabError(*_unknown("chapter", name, [chapter.stem for chapter in self.chapters]))

    def _chapter(self, name: str) -> Chapter | None:
        return next((each for each in self.chapters if name in (each.stem, each.id, each.module)), None)

    def in_file(self, file: str) -> tuple[Exercise, ...]:
        """The exercises that are written in one file, which is named as :attr:`Exercise.file` does."""
        return tuple(exercise for exercise in self.exercises if exercise.file == file)

    def exercise(self, id: str, chapter: Chapter | None = None) -> Exercise:
        """The exercise with this id (``c04.asinh``), or with this name (``asinh``) where one chapter has it.

        Args:
            id: id or name.
            chapter: whose exercise a name means first.

        Raises:
            SeveralExercises: several chapters have an exercise of that name.
        """
        found = [exercise for exercise in self.exercises if id in (exercise.id, exercise.name)]
        if chapter is not None:
            found = [exercise for exercise in found if exercise.chapter == chapter.stem] or found
        if len(found) > 1:
            raise SeveralExercises(id, [exercise.id for exercise in found])
        if found:
            return found[0]
        if chapter is not None and "." not in id:
            id = f"{chapter.id}.{id}"
        if "." in id:
            raise OplabError(*_unknown("exercise", id, [exercise.id for exercise in self.exercises]))
        near = difflib.get_close_matches(id, {exercise.name for exercise in self.exercises}, n=3, cutoff=0.6)
        ids = [exercise.id for exercise in self.exercises if exercise.name in near]
        if ids:
            raise OplabError(f"There is no exercise {id}.", f"Did you mean {' or '.join(ids)}?")
        raise OplabError(*_unknown("exercise", id, [exercise.id for exercise in self.exercises]))

    def target(self, id: str) -> Exercise | Chapter:
        """What commands take: an exercise (``c04.asinh``, ``asinh``) or a chapter (``c04``, ``04_aten_symbolic``).

        Raises:
            SeveralExercises: several chapters have an exercise of that name.
        """
        if chapter := self._chapter(id):
            return chapter
        if "." not in id and re.match(rf"c?{NUMBER}", id):
            return self.chapter(id)
        return self.exercise(id)

    def select(self, ids: Iterable[str]) -> tuple[Exercise, ...]:
        """The exercises that ``ids`` name, in the order of the course.

        Args:
            ids: what :meth:`target` takes; all of the course if there are none.

        Raises:
            SeveralExercises: several chapters have an exercise of that name.
        """
        ids = list(ids)
        if not ids:
            return self.exercises
        chosen = set()
        for id in ids:
            found = self.target(id)
            chosen.update(exercise.id for exercise in (found.exercises if isinstance(found, Chapter) else (found,)))
        return tuple(exercise for exercise in self.exercises if exercise.id in chosen)

    def checks_file(self, exercise: Exercise) -> Path:
        """The file with the checks of the exercise's chapter."""
        return paths.part(self.root, "oplab/checks") / f"c{exercise.chapter}.py"

    def reference_file(self, exercise: Exercise) -> Path:
        """The file with the reference answer: in ``solutions/``, or in the installed package."""
        return paths.part(self.root, "solutions") / exercise.file


def preloads(exercises: Iterable[Exercise]) -> tuple[str, ...]:
    """What a grading server for these exercises warms up: some of :data:`PRELOADS`, sorted."""
    return tuple(sorted({name for exercise in exercises for name in exercise.preload}))


def load(root: Path) -> Course:
    """Read ``course.toml`` in ``root``."""
    path = root / "course.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OplabError(f"{path} cannot be read: {error.strerror}.", "Restore the file from the repository.") from None
    try:
        course = _Reader(path, text).course(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise OplabError(f"{path} is not valid TOML: {error}.", "Fix that line.") from None
    return spoken(course, ("title", "able", "goal", "hints"), catalogue("course", chosen(root)))


def _unknown(what: str, name: str, known: list[str]) -> tuple[str, str]:
    """Message and fix for a name that is not in the manifest."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    if not near and "." in name:  # the part after the dot may be right in another chapter
        near = [id for id in known if id.split(".")[-1] == name.split(".")[-1]]
    fix = f"Did you mean {' or '.join(near)}?" if near else "`oplab list` shows all of them."
    return f"There is no {what} {name}.", fix


class _Reader:
    """Turns parsed TOML into objects, and finds the line of each part for messages."""

    def __init__(self, path: Path, text: str):
        self.path = path
        self.lines = text.splitlines()

    def course(self, data: dict[str, Any]) -> Course:
        self._keys(data, {"title", "solutions", "limits", "renamed", "chapter"}, "the course", (None, None))
        defaults = self._limits(data.get("limits", {}), Limits(), (None, None))
        chapters = []
        for number, item in enumerate(self._list(data, "chapter", (None, None))):
            chapters.append(self._chapter(item, defaults, number))
        stems = [chapter.stem for chapter in chapters]
        if stems != sorted(stems) or len({stem[:2] for stem in stems}) != len(stems):
            self._fail("the chapters have to be in the order of their numbers, each number once", (None, None))
        for number, chapter in enumerate(chapters):
            self._builds_on(chapter, chapters, number)
        course = Course(self.path.parent, self._get(data, "title", str, (None, None)), tuple(chapters))
        renamed = self._get(data, "renamed", dict, (None, None)) if "renamed" in data else {}
        if wrong := renaming.problem(renamed, [exercise.id for exercise in course.exercises]):
            self._fail(f"renamed: {wrong[1]}", (None, None), wrong[0])
        if (solutions := data.get("solutions", course.solutions)) not in ("after_hints", "after_pass"):
            self._fail(f"solutions = {solutions!r} has to be 'after_hints' or 'after_pass'", (None, None), "solutions")
        return replace(course, renamed=renamed, solutions=solutions)

    def _chapter(self, item: dict[str, Any], defaults: Limits, number: int) -> Chapter:
        where = (number, None)
        known = {"stem", "title", "minutes", "deeper", "deeper_minutes", "builds_on", "able", "exercise"}
        self._keys(item, known, "a chapter", where)
        stem = self._get(item, "stem", str, where)
        if not _STEM.fullmatch(stem):
            self._fail(f"stem = {stem!r} has to look like 04_aten_symbolic", where, "stem")
        minutes, entries = self._number(item, "minutes", where, 0, 600), enumerate(self._list(item, "exercise", where))
        found = [self._exercise(entry, stem, defaults, (number, index)) for index, entry in entries]
        exercises = tuple(one if minutes else replace(one, deeper=True) for one in found)
        names = [exercise.name for exercise in exercises]
        for index, name in enumerate(names):
            if name in names[:index]:
                self._fail(f"the exercise {name!r} is there twice", (number, index), "name")
        return Chapter(
            stem,
            self._get(item, "title", str, where),
            minutes,
            exercises,
            self._strings(item, "deeper", where) if "deeper" in item else (),
            self._number(item, "deeper_minutes", where, 1, 600) if "deeper_minutes" in item else 0,
            # the first chapter builds on nothing, and may say so with an empty list
            self._strings(item, "builds_on", where) if item.get("builds_on", []) != [] else (),
            self._able(item, where) if "able" in item else "",
        )

    def _able(self, item: dict[str, Any], where: tuple) -> str:
        text = self._get(item, "able", str, where)
        if not text.endswith(".") or _ENDS.search(text[:-1]) or text != " ".join(text.split()):
            self._fail("able has to be one sentence on one line, which ends with a full stop", where, "able")
        if len(text) > ABLE:
            self._fail(f"able has {len(text)} characters; at most {ABLE} fit", where, "able")
        return text

    def _builds_on(self, chapter: Chapter, chapters: list[Chapter], number: int) -> None:
        """The chapters that one builds on exist and come before it. An appendix comes before every chapter that is not one."""
        order = sorted(chapters, key=lambda entry: (not entry.appendix, entry.stem))
        before = [entry.id for entry in order[: order.index(chapter)]]
        known = {entry.id for entry in chapters}
        for index, id in enumerate(chapter.builds_on):
            if id not in known:
                near = difflib.get_close_matches(id, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                self._fail(f"builds_on: there is no chapter {id!r}{hint}", (number, None), "builds_on")
            if id not in before:
                self._fail(
                    f"builds_on: {id} is not before {chapter.id}; a chapter builds on earlier ones and on appendices",
                    (number, None),
                    "builds_on",
                )
            if id in chapter.builds_on[:index]:
                self._fail(f"builds_on: {id} is there twice", (number, None), "builds_on")

    def _exercise(self, item: dict[str, Any], stem: str, defaults: Limits, where: tuple) -> Exercise:
        self._keys(item, {each.name for each in fields(Exercise)} - {"chapter"}, "an exercise", where)
        name = self._get(item, "name", str, where)
        if not _NAME.fullmatch(name):
            self._fail(f"name = {name!r} has to be a function's name in lower case", where, "name")
        kind = item.get("kind", "python")
        if kind not in KINDS:
            self._fail(f"kind = {kind!r} has to be one of {', '.join(KINDS)}", where, "kind")
        return Exercise(
            name=name,
            chapter=stem,
            goal=self._get(item, "goal", str, where),
            points=self._number(item, "points", where, 1, 100),
            difficulty=self._number(item, "difficulty", where, 1, 5),
            minutes=self._number(item, "minutes", where, 1, 600),
            hints=self._strings(item, "hints", where),
            kind=kind,
            preload=self._strings(item, "preload", where, PRELOADS) if "preload" in item else (),
            limits=self._limits(item.get("limits", {}), defaults, where),
            speed=self._get(item, "speed", bool, where) if "speed" in item else False,
            pieces=self._get(item, "pieces", bool, where) if "pieces" in item else False,
            not_allowed=self._strings(item, "not_allowed", where) if "not_allowed" in item else (),
            deeper=self._get(item, "deeper", bool, where) if "deeper" in item else False,
            repair=self._get(item, "repair", bool, where) if "repair" in item else False,
        )

    def _limits(self, item: Any, defaults: Limits, where: tuple) -> Limits:
        names = {limit.name for limit in fields(Limits)}
        if not isinstance(item, dict):
            self._fail("limits has to be a table", where, "limits")
        self._keys(item, names, "limits", where)
        values = {}
        for key, value in item.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                self._fail(f"{key} = {value!r} has to be a number above 0", where, key)
            values[key] = type(getattr(defaults, key))(value)
        return replace(defaults, **values)

    def _list(self, item: dict[str, Any], key: str, where: tuple) -> list[dict[str, Any]]:
        value = item.get(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            self._fail(f"{key} has to be a list of tables", where, key)
        return value

    def _strings(self, item: dict[str, Any], key: str, where: tuple, known: tuple[str, ...] = ()) -> tuple[str, ...]:
        value = self._get(item, key, list, where)
        if not value or not all(isinstance(entry, str) and entry for entry in value):
            self._fail(f"{key} has to be a list of strings", where, key)
        if known and not set(value) <= set(known):
            self._fail(f"{key} can hold {', '.join(known)}", where, key)
        return tuple(value)

    def _number(self, item: dict[str, Any], key: str, where: tuple, low: int, high: int) -> int:
        value = self._get(item, key, int, where)
        if isinstance(value, bool) or not low <= value <= high:
            self._fail(f"{key} = {value!r} has to be a whole number from {low} to {high}", where, key)
        return value

    def _get(self, item: dict[str, Any], key: str, kind: type, where: tuple) -> Any:
        if key not in item:
            self._fail(f"the key {key!r} is missing", where)
        if not isinstance(item[key], kind) or item[key] == "":
            self._fail(f"{key} = {item[key]!r} is not what belongs there (a {kind.__name__})", where, key)
        return item[key]

    def _keys(self, item: dict[str, Any], known: set[str], what: str, where: tuple) -> None:
        for key in item:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"
                self._fail(f"{what} has no key {key!r}{hint}", where, key)

    def _fail(self, message: str, where: tuple, key: str | None = None) -> None:
        raise OplabError(f"{self.path.name}, line {self._line(where, key)}: {message}.", "Fix that line.")

    def _line(self, where: tuple, key: str | None) -> int:
        """The line of a key in the chapter and exercise numbered ``where``; the table's header if the key is not there."""
        chapter = exercise = -1
        header = 1
        inside = where == (None, None)
        for number, line in enumerate(self.lines, start=1):
            text = line.strip()
            if text.startswith("[[chapter]]"):
                chapter, exercise = chapter + 1, -1
            elif text.startswith("[[chapter.exercise]]"):
                exercise += 1
            if text.startswith("["):
                here = (None if chapter < 0 else chapter, None if exercise < 0 else exercise)
                inside = here == where
                if inside and where != (None, None):
                    header = number
            if inside and key and re.match(rf"[\"']?{re.escape(key)}[\"']?\s*=|.*\{{.*\b{re.escape(key)}\s*=", text):
                return number
        return header
