"""A chapter, as its notebook uses it."""

from __future__ import annotations

import atexit
import importlib.metadata
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oplab import paths
from oplab.course import answers, quiz, stubs, translated
from oplab.course.language import gettext
from oplab.course.manifest import Chapter, Course, Exercise, load, preloads
from oplab.errors import OplabError
from oplab.figures import listing, palette
from oplab.figures import picture as pictures
from oplab.grading import progress as progressing
from oplab.grading.card import card_html, hints_html, lines_html, reference_html
from oplab.grading.client import Server
from oplab.grading.grader import grade
from oplab.grading.hints import SAME, locked, one_more
from oplab.grading.overview import open_exercises
from oplab.grading.results import Outcome
from oplab.grading.text import lines, next_note, outcome_lines
from oplab.lessons.saved import Answers
from oplab.lessons.shown import Card, Live, difference_card, show

_VERSIONS = ("torch", "onnx", "onnxruntime", "onnxscript")
_servers: dict[tuple[object, ...], Server] = {}


class Interrupted(KeyboardInterrupt):
    """A check that the learner stopped: a sentence in a notebook, without a traceback."""

    def _render_traceback_(self) -> list[str]:  # IPython calls this instead of printing its own traceback
        return [str(self)]


class Lesson:
    """A chapter, as its notebook uses it.

    Attributes:
        chapter: the chapter's entry in the manifest.
        exercises: the learner's module, which is read again when its file was saved (``OPLAB_TRACK=solutions``: the reference).
        build: a folder for the files that this notebook writes.
    """

    def __init__(self, stem: str):
        self._root = paths.root()
        self.course: Course = load(self._root)
        self.chapter: Chapter = self.course.chapter(stem)
        self.exercises = Answers(paths.part(self._root, paths.track()) / f"{self.chapter.module}.py")
        self.build = paths.build_dir() / "notebooks" / self.chapter.stem
        self.build.mkdir(parents=True, exist_ok=True)
        palette.use()
        show(self._heading())

    def check(self, name: str) -> None:
        """Grade one exercise, in a separate process, and show the outcome; after a pass, what is next.

        A reference answer (``OPLAB_TRACK=solutions``) that passes shows nothing: the saved notebooks show no pass before the
        learner has one.

        Args:
            name: the exercise's name (``"asinh"``), or its id (``"c04.asinh"``).

        Raises:
            OplabError: there is no such exercise, the grading server does not start, or a reference answer does not pass.
            Interrupted: the kernel was interrupted; nothing is recorded then.
        """
        exercise = self.find(name)
        if paths.track() == "solutions":
            outcome = self._grade(exercise).exercises[0]
            if not outcome.passed:
                raise OplabError(
                    f"The reference answer of {exercise.id} does not pass.", "\n".join(outcome_lines(outcome))
                )
            return
        slow = "" if self._server(exercise).warm else gettext("The first check loads PyTorch and ONNX Runtime.")
        with Live(gettext("Grading {id}", id=exercise.id), slow) as live:
            results = self._grade(exercise)
            progressing.record(paths.build_dir(), results, _warn)
            live.replace(self._card(exercise, results.exercises[0]))

    def hint(self, name: str) -> None:
        """Show one more hint, below those that you have seen. After a pass: all hints, and how the reference differs from your answer.

        Args:
            name: the exercise's name (``"asinh"``), or its id (``"c04.asinh"``).

        Raises:
            OplabError: there is no such exercise.
        """
        exercise = self.find(name)
        hints = one_more(self.course, exercise, _warn)
        notes = [hints.note] if hints.note else []
        if len(hints.texts) < hints.total:
            notes.append(gettext("{call} again shows the next one.", call=f'lab.hint("{name}")'))
        if hints.half:
            notes.append(gettext("Still stuck? {call}", call=f'lab.solution("{name}")'))
        html = hints_html(exercise.id, hints.texts, hints.total, href=_href, notes=notes)
        text = "\n".join(
            [gettext("Hints for {id}", id=exercise.id), *hints.lines(all=True), *notes[bool(hints.note) :]]
        )
        show(Card(html, text))
        if hints.difference:
            show(_difference(exercise, hints.difference))

    def solution(self, name: str, show: bool = False) -> Card:
        """The reference answer, after a pass, or after the last hint with ``show``; else a sentence that says so.

        Args:
            name: the exercise's name (``"asinh"``), or its id (``"c04.asinh"``).
            show: show it before a pass: the exercise counts half then.

        Raises:
            OplabError: there is no such exercise, or the references are not there.
        """
        exercise = self.find(name)
        if why := self._locked(exercise, name, show):
            return difference_card(why)
        code = answers.reference(self.course, exercise)
        title = gettext("The reference for {id}, from solutions/{file}", id=exercise.id, file=exercise.file)
        return Card(reference_html(title, code, exercise.language), f"{title}\n\n{code}")

    def show(self, *models: Any, **options: Any) -> Any:
        """The graph of a model, see :func:`oplab.viewer.show`."""
        from oplab.viewer import show

        return show(*models, **options)

    def figure(self, figure: Any, alt: str) -> pictures.Picture:
        """A matplotlib figure or the text of an SVG with its alt text, see :func:`oplab.figures.picture.picture`."""
        made = pictures.picture(figure, alt)
        return pictures.Picture(translated.figure(made.svg), made.alt)

    def cpp(self, name: str) -> Path:
        """The file ``name`` of ``notebooks/cpp``.

        Raises:
            OplabError: there is none.
        """
        return listing.find(self._root / "notebooks" / "cpp", name)

    def source(self, name: str, part: str | None = None) -> listing.Listing:
        """A file of ``notebooks/cpp``, or one definition of it, see :func:`oplab.figures.listing.source`."""
        return listing.source(self.cpp(name), part)

    def diff(self, before: str, after: str | None = None) -> Card | listing.Listing:
        """With one argument, an exercise: your answer against the reference, after a pass. With two: what changes between two files.

        Args:
            before: the exercise's name or id; or a file of ``notebooks/cpp``.
            after: another file of ``notebooks/cpp``, see :func:`oplab.figures.listing.diff`.

        Raises:
            OplabError: there is no such exercise or file, or one cannot be read.
        """
        if after is not None:
            return listing.diff(self.cpp(before), self.cpp(after))
        exercise = self.find(before)
        if why := self._locked(exercise, before):
            return difference_card(why)
        return _difference(exercise, answers.diff(self.course, exercise))

    def quiz(self) -> quiz.Quiz:
        """The chapter's five questions, from ``notebooks/quiz``, see :mod:`oplab.course.quiz`."""
        return quiz.read(quiz.path(self._root, self.chapter.stem))

    def fresh(self, name: str) -> Path:
        """Make an empty folder ``name`` in :attr:`build`; what an earlier run left there is removed."""
        folder = self.build / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def find(self, name: str) -> Exercise:
        """The exercise with this id, or with this name: of this chapter, else of the only chapter that has it.

        Raises:
            OplabError: there is none, or several other chapters have it.
        """
        return self.course.exercise(name, self.chapter)

    def _heading(self) -> Card:
        """The versions in use, the exercises with their states, and where they are written."""
        mine = paths.track() == "exercises"  # a saved lesson shows no progress
        progress = progressing.load(paths.build_dir(), _warn) if mine else progressing.Progress()
        looks = {exercise: progress.entry(exercise.id).look for exercise in self.chapter.exercises}
        states = ", ".join(f"{exercise.name} {sign} {state}" for exercise, (sign, state) in looks.items())
        files = dict.fromkeys(f"exercises/{exercise.file}" for exercise in looks)
        text = [", ".join(f"{name} {_version(name)}" for name in _VERSIONS)]
        text += [
            gettext("Exercises: {states}", states=states),
            gettext("Your answers: {files}", files=", ".join(files)),
        ]
        return Card(lines_html(text), "\n".join(text))

    def _grade(self, exercise: Exercise) -> Any:
        folder = self._root / paths.track()
        try:
            return grade(self.course, [exercise], folder, jobs=1, server=self._server(exercise))
        except KeyboardInterrupt:
            raise Interrupted(gettext("The check of {id} was stopped. Nothing was recorded.", id=exercise.id)) from None

    def _server(self, exercise: Exercise) -> Server:
        """One server for the life of the kernel, or the one that JupyterLab, ``oplab watch`` or ``make test`` has for the course."""
        preload = preloads([*self.chapter.exercises, exercise])
        key = (self._root, paths.track(), preload)
        if key not in _servers:
            _servers[key] = Server.shared(self.course, preload, track=paths.track())
            atexit.register(_servers[key].close)
        return _servers[key]

    def _card(self, exercise: Exercise, outcome: Outcome) -> Card:
        notes = []
        if outcome.passed:
            progress = progressing.load(paths.build_dir())
            if following := open_exercises(self.course, progress, exercise.chapter):
                notes.append(next_note(following[0], self._line(following[0])))
        elif outcome.status == "todo":
            where = self._line(exercise)
            place = f"exercises/{exercise.file}" + (gettext(", line {line}", line=where) if where else "")
            notes.append(gettext("Write it in {place}.", place=place))
        if outcome.status not in ("passed", "grader_error"):
            mine = exercise.chapter == self.chapter.stem
            notes.append(gettext("Stuck? {call}", call=f'lab.hint("{exercise.name if mine else exercise.id}")'))
        html = card_html(outcome, href=_href, notes=notes)
        return Card(html, "\n".join(entry.text for entry in lines(outcome, notes=notes)))

    def _line(self, exercise: Exercise) -> int | None:
        """Where the exercise is written in the learner's file."""
        try:
            text = (self._root / "exercises" / exercise.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        return stubs.line_of(text, exercise.id, exercise.name)

    def _locked(self, exercise: Exercise, name: str, show: bool = False) -> str:
        ask = f'lab.solution("{name}", show=True)'
        return locked(self.course, exercise, f'lab.hint("{name}")', ask, show, _warn)


def _href(file: str, line: int) -> str:
    """A place as a notebook links it. Lessons and their copies in ``work/`` are one folder below the course."""
    return f"../{file}#line={line - 1}"


def _difference(exercise: Exercise, difference: Sequence[str]) -> Card:
    title = gettext("Your answer for {id} (−) and the reference (+)", id=exercise.id)
    return difference_card(title, difference, [] if difference else [gettext(SAME)])


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name).split("+")[0]  # a CPU build says +cpu
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _warn(message: str) -> None:
    print(message, file=sys.stderr)
