"""What the panel can ask for, as plain functions: each takes the course's home and returns plain values for JSON."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from oplab.course import answers, copies, quiz, speaking
from oplab.course.language import gettext
from oplab.course.manifest import Chapter, Course, Exercise
from oplab.errors import OplabError
from oplab.grading import card, hints
from oplab.grading import progress as progressing
from oplab.jupyter.home import Home
from oplab.jupyter.settings import write_overrides
from oplab.jupyter.state import outcome_state

Found = TypeVar("Found")


class Refused(OplabError):
    """A call that cannot be answered now, with the status of HTTP that says so."""

    def __init__(self, status: int, message: str, fix: str = ""):
        super().__init__(message, fix)
        self.status = status


def check(home: Home, ids: Any) -> dict[str, Any]:
    """Have exercises graded: ``["c04.asinh", "c05"]``, all of the course if there are none."""
    if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
        raise Refused(400, "`ids` has to be a list of exercises or chapters.", 'For example {"ids": ["c04.asinh"]}.')
    course, service = home.course(), home.service()
    named = [part for id in ids for part in id.replace(",", " ").split()]
    if not (course.root / "exercises").is_dir():
        raise Refused(409, f"The folder {course.root / 'exercises'} is missing.", "Restore it from the repository.")
    try:
        exercises = course.select(named)
    except OplabError as error:
        raise Refused(404, error.message, error.fix) from None
    return {"queued": service.wish(exercises)}


def cancel(home: Home) -> dict[str, Any]:
    """End what is graded, and forget what waits."""
    home.service().cancel()
    return {}


def saved(home: Home, path: Any) -> dict[str, Any]:
    """The user of a page has saved a document, or all of them: ``""``. With `check_on_save`, what has changed in it is graded."""
    if not isinstance(path, str):
        raise Refused(400, "`path` is missing.", 'For example {"path": "exercises/c04_aten_symbolic.py"}.')
    service, file = home.service(), home.file(path)
    if file is not None or not path:
        service.saved(file)
    return {}


def hint(home: Home, id: Any) -> dict[str, Any]:
    """Show one more hint."""
    course = home.course()
    exercise = _named(course.exercise, id)
    shown = hints.one_more(course, exercise)
    home.tell("state", None)
    notes = [shown.note] if shown.note else []
    if shown.half:
        notes.append(
            gettext("Still stuck? Reference shows the answer; the exercise then counts half in your progress.")
        )
    html = card.hints_html(exercise.id, shown.texts, shown.total, href=home.where(course).href, notes=notes)
    return {"id": exercise.id, "hints": list(shown.texts), "total": shown.total, "html": html}


def outcome(home: Home, id: Any) -> dict[str, Any]:
    """What the last check said."""
    course = home.course()
    exercise = _named(course.exercise, id)
    entry = home.last(exercise.id)
    if entry is None:
        raise Refused(404, f"{exercise.id} has not been checked yet.", f"Check it: oplab check {exercise.id}")
    return outcome_state(course, home.where(course), entry)


def difference(home: Home, id: Any) -> dict[str, Any]:
    """How the answer differs from the reference, where that may be read."""
    course, exercise = _readable(home, id)
    lines = answers.diff(course, exercise)
    notes = [] if lines else [gettext(hints.SAME)]
    html = card.difference_html(gettext("{id}: your answer and the reference", id=exercise.id), lines, notes=notes)
    return {"id": exercise.id, "lines": lines, "html": html}


def reference(home: Home, id: Any) -> dict[str, Any]:
    """The reference answer, where it may be read."""
    course, exercise = _readable(home, id)
    text = answers.reference(course, exercise)
    html = card.reference_html(gettext("{id}: the reference", id=exercise.id), text, exercise.language)
    return {"id": exercise.id, "file": f"solutions/{exercise.file}", "text": text, "html": html}


def show(home: Home, id: Any) -> dict[str, Any]:
    """Open the reference before a pass, after the last hint: the exercise counts half from now on."""
    _readable(home, id, asked=True)
    home.tell("state", None)
    return {}


def reset(home: Home, id: Any) -> dict[str, Any]:
    """Put an exercise, a chapter's file or a lesson back; what was there is kept in ``build/backup/``."""
    course = home.course()
    if not isinstance(id, str) or not id:
        raise Refused(400, "`id` is missing.", 'For example {"id": "c04.asinh"}.')
    try:
        lesson = copies.named(course, id)
        target: Exercise | Chapter = lesson or course.target(id)
    except OplabError as error:
        raise Refused(404, error.message, error.fix) from None
    if lesson is not None:
        done = [copies.reset(course, lesson)]
    else:
        done = answers.reset(course, target)
        ids = [exercise.id for exercise in course.select([target.id])]
        progressing.forget(course.root / "build", ids)
        home.forget(ids)
    home.tell("state", None)
    files = [
        {
            "file": file.relative_to(course.root).as_posix(),
            "backup": backup.relative_to(course.root).as_posix() if backup is not None else None,
        }
        for file, backup in done
    ]
    return {"id": id, **files[0], "files": files}


def questions(home: Home, id: Any) -> dict[str, Any]:
    """The first question of each of the three chapters before one, for who wants to begin with that one."""
    course = home.course()
    before = course.chapters[: course.chapters.index(_named(course.chapter, id))][-3:]
    asked = [quiz.read(quiz.path(course.root, chapter.stem)).questions[0] for chapter in before]
    return {"questions": [asdict(question) for question in asked]}


def begin(home: Home, id: Any) -> dict[str, Any]:
    """Have the way through the course begin with a chapter."""
    course = home.course()
    chapter = _named(course.chapter, id)
    with progressing.update(course.root / "build") as progress:
        progress.start = chapter.stem
    home.tell("state", None)
    return {"start": chapter.id}


def language(home: Home, name: Any) -> dict[str, Any]:
    """Change the language of lessons, stubs, hints and the panel; the page loads again after it."""
    if not isinstance(name, str) or not name:
        raise Refused(400, "`name` is missing.", 'For example {"name": "zh_CN"}.')
    chosen = speaking.switch(home.course(), name)
    with contextlib.suppress(OSError):  # the panel stays as it is then
        write_overrides(Path(sys.prefix), chosen)
    home.tell("state", None)
    return {"language": chosen}


def settings(home: Home, values: dict[str, Any]) -> dict[str, Any]:
    """Change settings: ``check_on_save``."""
    on = values.get("check_on_save")
    if set(values) != {"check_on_save"} or not isinstance(on, bool):
        raise Refused(400, "The only setting is `check_on_save`: true or false.")
    home.set_check_on_save(on)
    return {"check_on_save": on}


def _named(find: Callable[[str], Found], id: Any) -> Found:
    if not isinstance(id, str) or not id:
        raise Refused(400, "`id` is missing.", 'For example {"id": "c04.asinh"}.')
    try:
        return find(id)
    except OplabError as error:
        raise Refused(404, error.message, error.fix) from None


def _readable(home: Home, id: Any, asked: bool = False) -> tuple[Course, Exercise]:
    course = home.course()
    exercise = _named(course.exercise, id)
    if why := hints.locked(course, exercise, gettext("a hint"), gettext("The button Reference"), asked):
        raise Refused(403, why)
    return course, exercise
