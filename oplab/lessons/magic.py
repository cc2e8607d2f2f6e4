"""The cell magic ``%%exercise``, for those who like to write their answers in the notebook."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from oplab import paths
from oplab.course import answers, stubs
from oplab.course.manifest import Exercise
from oplab.errors import OplabError
from oplab.lessons import writing
from oplab.lessons.shown import Card, difference_card, ipython, show

if TYPE_CHECKING:
    from oplab.lessons.chapter import Lesson


def register(lesson: Lesson) -> None:
    """Make ``%%exercise`` known to IPython, for this lesson; without IPython nothing happens."""
    if (shell := ipython()) is not None:
        writer = Writer(lesson)

        def exercise(line: str, cell: str) -> None:
            writer.run(line, cell)

        exercise.__doc__ = HELP
        shell.register_magic_function(exercise, "cell", "exercise")


HELP = """Write an exercise in a cell: ``%%exercise asinh`` in its chapter's notebook, ``%%exercise c04.asinh`` in any.

The cell is written to the exercise's file in ``exercises/``, then graded. The file is your answer: ``lab.exercises`` reads it, and
the cell itself is not run.

- The function replaces the one in the file, with its decorators.
- The cell's imports, other functions and classes, and assignments to names are helpers. A helper that the file has is replaced,
  a new one is put before the function. An import that the file has is left as it is.
- Everything else in the file stays as it is. Comments outside of a function or class are not written.
- Anything else is rejected, for example a top-level call or loop. Write it in another cell.
- The previous file is saved in ``build/backup/``.

C++ exercises are written in their own file.
"""


class Writer:
    """Writes cells of one notebook to the learner's files."""

    def __init__(self, lesson: Lesson):
        self._lesson = lesson
        self._left: dict[str, str | None] = {}  # each exercise's function as this notebook has left it

    def run(self, line: str, cell: str) -> None:
        """Write a cell's function to its file, show what changed, and grade it.

        Raises:
            OplabError: the cell or the file does not allow it; the file is untouched then.
        """
        exercise = self._exercise(line)
        card = self.write(exercise, cell)
        show(card)
        self._lesson.check(exercise.id)

    def write(self, exercise: Exercise, cell: str) -> Card:
        """Write a cell's function to its file.

        Returns:
            what changed.

        Raises:
            OplabError: the cell or the file does not allow it; the file is untouched then.
        """
        course = self._lesson.course
        path, name = course.root / "exercises" / exercise.file, f"exercises/{exercise.file}"
        data, text = writing.read(path, name)
        self._not_changed(exercise, text, name)
        taken = {entry.name for entry in course.in_file(exercise.file)} - {exercise.name}
        new = writing.merged(text.replace("\r\n", "\n"), cell, exercise.name, name, taken)
        if "\r\n" in text:
            new = new.replace("\n", "\r\n")
        if new == text:
            return difference_card(f"{name} already contains this.")
        try:
            backup = answers.backup_of(course, path, exercise.file)
        except OSError as error:
            raise OplabError(
                f"The current file cannot be saved in build/backup/: {error.strerror}.",
                "Make the course's folder writable.",
            ) from None
        writing.write(path, data, new, name)
        self._left[exercise.id] = stubs.function_text(new, exercise.name)
        difference = difflib.unified_diff(text.splitlines(), new.splitlines(), "before", "now", lineterm="", n=2)
        note = f"The previous file is saved in {backup.relative_to(course.root)}."
        return difference_card(f"What changed in {name}", list(difference), [note])

    def _not_changed(self, exercise: Exercise, text: str, name: str) -> None:
        """Refuse, once, to replace a function that somebody has changed since this notebook wrote it."""
        try:
            now = stubs.function_text(text, exercise.name)
        except (SyntaxError, ValueError):
            return  # the file is refused for that
        left = self._left.setdefault(exercise.id, now)
        self._left[exercise.id] = now
        if left != now and now is not None and f'todo("{exercise.id}")' not in now:
            raise OplabError(
                f"{exercise.name} in {name} has changed since this notebook wrote it.",
                "Run the cell again to replace it; the current file is then saved in build/backup/.",
            )

    def _exercise(self, line: str) -> Exercise:
        words = line.split()
        if len(words) != 1:
            raise OplabError(
                "%%exercise takes one exercise.", f"Write `%%exercise {self._lesson.chapter.exercises[0].name}`."
            )
        exercise = self._lesson.find(words[0])
        if paths.track() != "exercises":
            raise OplabError(
                "%%exercise writes your exercises, and OPLAB_TRACK=solutions is set.", "Unset OPLAB_TRACK."
            )
        if exercise.kind != "python":
            raise OplabError(
                f"{exercise.id} is written in C++, in exercises/{exercise.file}.",
                f'Write it there, then run lab.check("{words[0]}").',
            )
        return exercise
