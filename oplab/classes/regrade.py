"""Grades one exercise again for the whole class, after its check was fixed.

The answers are those that GRADES keeps. The new verdicts have keys of their own, because the grader's version is part of a key: until the
diff is accepted nothing refers to them, so a regrade that is stopped changes no grade and goes on where it was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from oplab.classes import publish, records, runner, versions
from oplab.classes.counting import count, shown
from oplab.classes.engines import Engine
from oplab.classes.extraction import Answer
from oplab.classes.publish import Change
from oplab.classes.records import Grades, Submission, Task, Verdict
from oplab.classes.rules import Rules
from oplab.classes.runner import Planner, Work
from oplab.course.manifest import Course, Exercise
from oplab.errors import OplabError
from oplab.files import write_atomically

HISTORY = "regrades.json"


@dataclass(frozen=True)
class Regrade:
    """One exercise of a class, graded again.

    Attributes:
        exercise: its id.
        before: the grades as they are kept.
        after: the same with the new verdicts of this exercise.
        work: what was graded. While some of it is unfinished, or it was stopped, nothing can be replaced.
        changes: the learners whose total changes, by login.
        states: how many different answers went from one state to another.
    """

    exercise: str
    before: Grades
    after: Grades
    work: Work
    changes: tuple[Change, ...]
    states: Mapping[tuple[str, str], int]

    @property
    def nothing_new(self) -> bool:
        """Whether all answers were graded by this version of the check already."""
        return self.after.submissions == self.before.submissions

    def diff(self) -> list[str]:
        """What changes, as lines: states of answers, then grades, those that go down first."""
        lines = [f"{old} → {new}: {number}" for (old, new), number in sorted(self.states.items()) if old != new]
        same = sum(number for (old, new), number in self.states.items() if old == new)
        lines.append(f"the same state as before: {same}")
        down = publish.lower(self.changes)
        for what, changes in (("down", down), ("up", [change for change in self.changes if change not in down])):
            lines.append(f"{len(changes)} {'grade goes' if len(changes) == 1 else 'grades go'} {what}")
            lines += [f"  {change}" for change in changes]
        return lines


def run(course: Course, exercise: Exercise, folder: Path, used: Rules, make_engine: Callable[[int], Engine]) -> Regrade:
    """Grade an exercise again, and say what would change; nothing that counts is replaced.

    Args:
        make_engine: called with the number of answers to grade, if there are any; the engine is closed at the end.

    Raises:
        KeyboardInterrupt: a second Ctrl-C. What was graded is kept.
    """
    watch = versions.watch(course)
    before = records.load(folder)
    everything = [one for handed_in in before.submissions.values() for one in handed_in]
    old = {task.key: task for one in everything if (task := one.tasks.get(exercise.id)) is not None}
    if not old:
        raise OplabError(
            f"{folder} holds no answer to {exercise.id}.",
            f"`oplab class grade … --exercises {exercise.id}` grades it for the first time.",
        )
    work = Work(before.learners)
    seed = before.run.get("seed", next((verdict.seed for verdict in before.verdicts.values()), 0))
    planner = Planner(course, [exercise], folder, seed, work)
    new = {key: planner.task(exercise.id, _answer(before, task)) for key, task in old.items()}
    if work.tasks:
        runner.grade(work, make_engine(len(work.tasks)), planner, watch, lambda work: None)
    found = ((task.key, records.load_verdict(folder, task.key)) for task in new.values())
    verdicts = {**before.verdicts, **{key: verdict for key, verdict in found if verdict is not None}}
    after = replace(before, submissions=_replaced(before, exercise.id, new), verdicts=verdicts)
    known = [(before.verdicts.get(key), verdicts[task.key]) for key, task in new.items() if task.key in verdicts]
    totals = {row.learner.login: row.total for row in count(before, before.learners, used).rows}
    return Regrade(
        exercise.id,
        before,
        after,
        work,
        publish.differences(totals, count(after, before.learners, used)),
        Counter((_state(one), _state(other)) for one, other in known),
    )


def replace_grades(found: Regrade, why: str, *, accepted: bool) -> None:
    """Let the new verdicts count, and note why in ``regrades.json``.

    The note is written first: a process that ends between the two leaves a note about a regrade that is run again, and no change
    without a note.
    """
    folder = found.before.folder
    states = sorted(found.states.items())
    entry = {
        "exercise": found.exercise,
        "why": why,
        "at": datetime.now().astimezone().isoformat(),
        "accepted_lower": accepted and bool(publish.lower(found.changes)),
        "states": [{"before": before, "after": after, "answers": number} for (before, after), number in states],
        "changes": [
            {"login": change.login, "before": shown(change.before), "after": shown(change.after)}
            for change in found.changes
        ],
    }
    content = {"version": records.VERSION, "regrades": [*history(folder), entry]}
    write_atomically(folder / HISTORY, json.dumps(content, indent=1) + "\n")
    records.save_submissions(folder, found.after.learners, dict(found.after.submissions), found.after.problems)


def history(folder: Path) -> list[dict[str, Any]]:
    """The regrades of GRADES so far, the oldest first."""
    return records.read_json(folder / HISTORY).get("regrades", []) if (folder / HISTORY).exists() else []


def _answer(grades: Grades, task: Task) -> Answer:
    verdict = grades.verdicts.get(task.key)
    settled = verdict.outcome if verdict is not None and not verdict.machine else None  # nothing had to run for it
    return Answer(task.answer, records.load_answer(grades.folder, task.answer), settled)


def _replaced(grades: Grades, exercise: str, new: Mapping[str, Task]) -> dict[str, tuple[Submission, ...]]:
    def one(submission: Submission) -> Submission:
        if exercise not in submission.tasks:
            return submission
        return replace(submission, tasks={**submission.tasks, exercise: new[submission.tasks[exercise].key]})

    return {login: tuple(map(one, submissions)) for login, submissions in grades.submissions.items()}


def _state(verdict: Verdict | None) -> str:
    return "not graded" if verdict is None else verdict.outcome.status.replace("_", " ")
