"""Hints one after the other: how many of an exercise's hints a learner has seen is part of the progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oplab import paths
from oplab.course import answers
from oplab.course.language import gettext
from oplab.course.manifest import Course, Exercise
from oplab.errors import OplabError
from oplab.grading import progress as progressing

SAME = "Your answer and the reference are the same."


@dataclass(frozen=True)
class Hints:
    """What a learner is shown.

    Attributes:
        texts: the hints seen so far, in order.
        total: how many there are.
        new: how many of ``texts``, from the end, this call is about: one, or all of them when all were seen before.
        difference: after a pass: the answer against the reference, as lines of a unified diff; else empty.
        note: a sentence below, or an empty string.
        half: whether the reference may be shown now, for half of the points.
    """

    texts: tuple[str, ...]
    total: int
    new: int
    difference: tuple[str, ...] = ()
    note: str = ""
    half: bool = False

    def lines(self, *, all: bool = False) -> list[str]:
        """The hints as lines, each with its number.

        Args:
            all: those that were seen before as well.
        """
        first = 0 if all else len(self.texts) - self.new
        lines = [
            gettext("Hint {number} of {total}: {text}", number=number, total=self.total, text=text)
            for number, text in enumerate(self.texts, start=1)
        ][first:]
        return [*lines, self.note] if self.note else lines


def one_more(course: Course, exercise: Exercise, warn: Callable[[str], None] = lambda _: None) -> Hints:
    """Count one more hint as seen. After a pass, and once all were seen, they are all there.

    Args:
        course: the course.
        exercise: whose hints.
        warn: called with a sentence when the progress cannot be read or written.

    Raises:
        OplabError: ``build/`` cannot be created.
    """
    with progressing.update(paths.created(course.root / "build"), warn) as progress:
        entry = progress.exercises.setdefault(exercise.id, progressing.Entry())
        total = len(exercise.hints)
        seen, passed = min(entry.hints, total), entry.passed_once
        if not passed:
            entry.hints = min(seen + 1, total)
        half = reference(course, exercise, entry) == "half"
    if passed:
        return _after_a_pass(course, exercise)
    if seen == total:
        return Hints(exercise.hints, total, total, note=gettext("These are all the hints."), half=half)
    return Hints(exercise.hints[: seen + 1], total, 1, half=half)


def reference(course: Course, exercise: Exercise, entry: progressing.Entry) -> str:
    """Whether a learner may read the reference: ``open``, ``half`` for those who ask and get half of the points, or ``closed``."""
    if entry.passed_once or entry.shown:
        return "open"
    return "half" if course.solutions == "after_hints" and entry.hints >= len(exercise.hints) else "closed"


def locked(
    course: Course,
    exercise: Exercise,
    hint: str,
    ask: str,
    asked: bool = False,
    warn: Callable[[str], None] = lambda _: None,
) -> str:
    """Why the reference is not shown, as a sentence; an empty string where it is.

    Args:
        course: the course.
        exercise: whose reference.
        hint: what shows a hint here.
        ask: what asks for the reference here.
        asked: whether the learner has done so. If it is shown because of that, the progress says so, and the exercise counts half.
        warn: called with a sentence when the progress cannot be read or written.

    Raises:
        OplabError: ``build/`` cannot be created, or the reference cannot be read.
    """
    build = course.root / "build"
    state = reference(course, exercise, progressing.load(build, warn).entry(exercise.id))
    if state == "closed":
        if course.solutions == "after_pass":
            closed = gettext("{id} has not passed yet. The reference is shown after a pass; until then {hint} helps.")
        else:
            closed = gettext(
                "{id} has not passed yet. The reference is shown after a pass or the last hint; until then {hint} helps."
            )
        return closed.format(id=exercise.id, hint=hint)
    if state == "half" and not asked:
        return gettext(
            "{id} has not passed yet. {ask} shows the reference; the exercise then counts half in your progress.",
            id=exercise.id,
            ask=ask,
        )
    if state == "half":
        answers.reference_text(course, exercise)  # what cannot be read costs nothing
        with progressing.update(paths.created(build), warn) as progress:
            progress.exercises.setdefault(exercise.id, progressing.Entry()).shown = True
    return ""


def hint_lines(course: Course, exercise: Exercise, warn: Callable[[str], None] = lambda _: None) -> list[str]:
    """:func:`one_more` as lines for a terminal: the new hint; after a pass all of them, and the difference to the reference."""
    hints = one_more(course, exercise, warn)
    lines = hints.lines()
    if hints.half:
        lines.append(
            gettext(
                "Still stuck? {call} shows the reference; the exercise then counts half.",
                call=f"`oplab diff {exercise.id} --show`",
            )
        )
    if len(hints.texts) < hints.total:
        lines[-1] += "  " + gettext("(run again for the next hint)")
    return [*lines, "", *hints.difference] if hints.difference else lines


def _after_a_pass(course: Course, exercise: Exercise) -> Hints:
    try:
        difference, note = tuple(answers.diff(course, exercise)), ""
    except OplabError as error:  # a teacher may have taken the references out
        difference, note = (), str(error)
    total = len(exercise.hints)
    return Hints(exercise.hints, total, total, difference, note or ("" if difference else gettext(SAME)))
