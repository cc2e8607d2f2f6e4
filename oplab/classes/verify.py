"""Grades a sample of verdicts again, from the kept answers and with the same inputs, and compares."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from oplab.classes import records, versions
from oplab.classes.engines import Engine
from oplab.classes.records import Grades, Task, Verdict
from oplab.classes.runner import plain, while_unchanged
from oplab.course.manifest import Course
from oplab.errors import OplabError


@dataclass(frozen=True)
class Difference:
    """A verdict that did not come out again.

    Attributes:
        kept: the one in GRADES.
        sentence: what differs.
    """

    kept: Verdict
    sentence: str


def sample(grades: Grades, size: int, seed: int) -> list[Verdict]:
    """``size`` verdicts that submissions name and for which code ran, chosen at random; all of them if there are fewer."""
    named = {task.key for all in grades.submissions.values() for one in all for task in one.tasks.values()}
    ran = sorted(key for key in named if key in grades.verdicts and grades.verdicts[key].machine)
    return [grades.verdicts[key] for key in random.Random(seed).sample(ran, min(size, len(ran)))]


def verify(
    course: Course,
    grades: Grades,
    chosen: list[Verdict],
    engine: Engine,
    done: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Difference]:
    """Grade verdicts again.

    Args:
        course: the course.
        grades: where the answers are kept.
        chosen: verdicts of ``grades``.
        engine: where to grade; it is closed at the end.
        done: called with each new verdict.

    Returns:
        a difference for each verdict whose state, points or checks are not the same. Points for speed are not compared.

    Raises:
        OplabError: the course was changed meanwhile.
    """
    watch = versions.watch(course)
    found, tasks = [], []
    try:
        for verdict in chosen:
            exercise = course.exercise(verdict.exercise)
            now = versions.grader_version(course, exercise)
            changed = [name for name in versions.PACKAGES if verdict.versions.get(name) != versions.here()[name]]
            if verdict.versions.get("grader") != now:
                what = ", ".join(changed) or f"the checks of {exercise.id}"
                found.append(
                    Difference(verdict, f"{what} changed since it was graded: `oplab class grade` grades it again.")
                )
                continue
            try:
                tasks.append(
                    plain(grades.folder, Task(verdict.exercise, verdict.key, verdict.answer), verdict.seed, now)
                )
            except OplabError as error:
                found.append(Difference(verdict, str(error)))
        for again in while_unchanged(engine.submit(tasks), watch):
            kept = grades.verdicts[again.key]
            if sentence := _difference(kept, again, course.exercise(again.exercise).speed):
                found.append(Difference(kept, sentence))
            done(again)
    finally:
        engine.close()
    return found


def _difference(kept: Verdict, again: Verdict, speed: bool) -> str:
    old, new = kept.outcome, again.outcome
    if old.status != new.status:
        return f"it was {old.status} and is {new.status} now ({records.clean(new.message)[:200]})."
    if old.points != new.points and not speed:
        return f"it had {old.points} points and has {new.points} now."
    before, after = ([(check.name, check.passed) for check in outcome.checks] for outcome in (old, new))
    if before != after:
        return "other checks passed than before."
    return ""
