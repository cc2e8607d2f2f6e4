"""Grades one exercise again for the whole class, after its check was fixed.

The answers are those that GRADES keeps. The new verdicts have keys of their own, because the grader's version is part of a key: until the
diff is accepted nothing refers to them, so a regrade that is stopped changes no grade and goes on where it was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from oplab.classes import publish, records, runner, versions
from oplab.classes.counting import count, shown
from oplab.classes.engines import Engine
from oplab.classes.publish import Change
from oplab.classes.records import Grades, Submission, Task, Verdict
from oplab.classes.rules import Rules
from oplab.course.manifest import Course, Exercise
from oplab.errors import OplabError
from oplab.files import write_atomically
from oplab.grading.integrity import Watch
from oplab.grading.results import Outcome

HISTORY = "regrades.json"


@dataclass
class Regrade:
    """One exercise of a class, graded again.

    Attributes:
        exercise: its id.
        before: the grades as they are kept.
        after: the same with the new verdicts of this exercise.
        graded: how many different answers were graded now.
        known: how many had a verdict of this version of the check already.
        unfinished: reasons of the answers that could not be graded; while there are some, nothing can be replaced.
        stopped: whether Ctrl-C has ended it early.
        changes: the learners whose total changes, by login.
        states: how many different answers went from one state to another.
    """

    exercise: str
    before: Grades
    after: Grades
    graded: int = 0
    known: int = 0
    unfinished: list[str] = field(default_factory=list)
    stopped: bool = False
    changes: tuple[Change, ...] = ()
    states: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def lower(self) -> tuple[Change, ...]:
        """The changes of grades that go down."""
        return tuple(change for change in self.changes if change.after < change.before)

    @property
    def nothing_new(self) -> bool:
        """Whether all answers were graded by this version of the check already."""
        return self.after.submissions == self.before.submissions

    def diff(self) -> list[str]:
        """What changes, as lines: states of answers, then grades, those that go down first."""
        lines = [f"{old} → {new}: {number}" for (old, new), number in sorted(self.states.items()) if old != new]
        same = sum(number for (old, new), number in self.states.items() if old == new)
        lines.append(f"the same state as before: {same}")
        higher = [change for change in self.changes if change not in self.lower]
        for what, changes in (("down", self.lower), ("up", higher)):
            lines.append(f"{len(changes)} {'grade goes' if len(changes) == 1 else 'grades go'} {what}")
            lines += [f"  {change}" for change in changes]
        return lines


def run(
    course: Course,
    exercise: Exercise,
    folder: Path,
    used: Rules,
    make_engine: Callable[[int], Engine],
    done: Callable[[Verdict], None] = lambda verdict: None,
) -> Regrade:
    """Grade an exercise again, and say what would change; nothing that counts is replaced.

    Args:
        course: the course, with the check that was fixed.
        exercise: what to grade.
        folder: GRADES.
        used: the rules of the course.
        make_engine: called with the number of answers to grade, if there are any; the engine is closed at the end.
        done: called with each new verdict.

    Raises:
        OplabError: GRADES holds no answer to this exercise, or cannot be read; or the course was changed meanwhile.
        OSError: a verdict cannot be written.
        KeyboardInterrupt: a second Ctrl-C. What was graded is kept.
    """
    watch = versions.watch(course)
    before = records.load(folder)
    old = {task.key: task for task in _tasks(before, exercise.id)}
    if not old:
        raise OplabError(
            f"{folder} holds no answer to {exercise.id}.",
            f"`oplab class grade … --exercises {exercise.id}` grades it for the first time.",
        )
    grader = versions.grader_version(course, exercise)
    new = {key: _task(before, task, grader) for key, task in old.items()}
    verdicts = dict(before.verdicts)
    found = Regrade(exercise.id, before, before)
    waiting: dict[str, Task] = {}
    for key, task in new.items():
        if task.key in verdicts:
            found.known += 1
        elif (settled := _settled(before.verdicts.get(key))) is not None:
            kept = before.verdicts[key]
            verdicts[task.key] = replace(
                kept, key=task.key, outcome=settled, versions={"grader": grader, **versions.here()}, graded_at=_now()
            )
            records.save_verdict(folder, verdicts[task.key])
        else:
            waiting[task.key] = task
    if waiting:
        seed = before.run.get("seed", next((verdict.seed for verdict in before.verdicts.values()), 0))
        plain = (runner.plain(folder, task, seed, grader) for task in waiting.values())
        _grade(found, make_engine(len(waiting)), plain, folder, verdicts, done, watch)
        found.stopped = found.stopped or found.graded + len(found.unfinished) < len(waiting)
    found.after = replace(before, submissions=_replaced(before, exercise.id, new), verdicts=verdicts)
    now_known = {key: task for key, task in new.items() if task.key in verdicts}
    found.states = Counter(
        (_state(before.verdicts.get(key)), _state(verdicts[task.key])) for key, task in now_known.items()
    )
    totals = {row.learner.login: row.total for row in count(before, before.learners, used).rows}
    found.changes = publish.differences(totals, count(found.after, before.learners, used))
    return found


def replace_grades(found: Regrade, why: str, *, accepted: bool) -> None:
    """Let the new verdicts count, and note why in ``regrades.json``.

    The note is written first: a process that ends between the two leaves a note about a regrade that is run again, and no change
    without a note.

    Raises:
        OplabError: ``regrades.json`` cannot be understood.
        OSError: a file cannot be written.
    """
    folder = found.before.folder
    old = {
        verdict.versions.get("grader", "")
        for task in _tasks(found.before, found.exercise)
        if (verdict := found.before.verdicts.get(task.key)) is not None
    }
    new = {found.after.verdicts[task.key].versions["grader"] for task in _tasks(found.after, found.exercise)}
    entry = {
        "exercise": found.exercise,
        "why": why,
        "at": _now().isoformat(),
        "grader_before": sorted(old),
        "grader": sorted(new),
        "accepted_lower": accepted and bool(found.lower),
        "states": [
            {"before": before, "after": after, "answers": number}
            for (before, after), number in sorted(found.states.items())
        ],
        "changes": [
            {"login": change.login, "before": shown(change.before), "after": shown(change.after)}
            for change in found.changes
        ],
    }
    entries = [*history(folder), entry]
    write_atomically(folder / HISTORY, json.dumps({"version": 1, "regrades": entries}, indent=1) + "\n")
    records.save_submissions(folder, found.after.learners, dict(found.after.submissions), found.after.problems)


def history(folder: Path) -> list[dict[str, Any]]:
    """The regrades of GRADES so far, the oldest first.

    Raises:
        OplabError: ``regrades.json`` cannot be understood.
    """
    path = folder / HISTORY
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = data["regrades"]
        if data["version"] != 1 or not isinstance(entries, list):
            raise ValueError("it was written by another version of oplab")
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise OplabError(f"{path} cannot be read: {error}.", "Move it away; a new one is begun.") from None
    return entries


def _grade(
    found: Regrade,
    engine: Engine,
    tasks: Any,
    folder: Path,
    verdicts: dict[str, Verdict],
    done: Callable[[Verdict], None],
    watch: Watch,
) -> None:
    def stop() -> None:
        found.stopped = True
        engine.finish()

    try:
        with runner.first_interrupt(stop):
            for verdict in runner.while_unchanged(engine.submit(tasks), watch):
                if verdict.outcome.status == "grader_error":
                    found.unfinished.append(verdict.outcome.message)
                else:
                    records.save_verdict(folder, verdict)
                    verdicts[verdict.key] = verdict
                    found.graded += 1
                done(verdict)
    finally:
        engine.close()


def _tasks(grades: Grades, exercise: str) -> list[Task]:
    return [
        submission.tasks[exercise]
        for submissions in grades.submissions.values()
        for submission in submissions
        if exercise in submission.tasks
    ]


def _settled(verdict: Verdict | None) -> Outcome | None:
    """The outcome where nothing had to run for it: an unchanged stub, or no file."""
    return verdict.outcome if verdict is not None and not verdict.machine else None


def _task(grades: Grades, task: Task, grader: str) -> Task:
    """The same answer under another version of the grader; what was settled from the text alone has its own keys."""
    settled = _settled(grades.verdicts.get(task.key))
    sha = task.answer if settled is None else records.sha256(f"{settled.status}: {settled.message}")
    return replace(task, key=records.task_key(task.exercise, grader, sha))


def _replaced(grades: Grades, exercise: str, new: Mapping[str, Task]) -> dict[str, tuple[Submission, ...]]:
    def one(submission: Submission) -> Submission:
        if exercise not in submission.tasks:
            return submission
        return replace(submission, tasks={**submission.tasks, exercise: new[submission.tasks[exercise].key]})

    return {login: tuple(map(one, submissions)) for login, submissions in grades.submissions.items()}


def _state(verdict: Verdict | None) -> str:
    return "not graded" if verdict is None else verdict.outcome.status.replace("_", " ")


def _now() -> datetime:
    return datetime.now().astimezone()
