"""Where the answers come from that are compared: the folder of grades, or submissions that are not graded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from oplab.classes import roster, submissions
from oplab.classes.records import Grades, load_answer
from oplab.course.manifest import Exercise

Sources = dict[str, dict[str, str]]


def of_grades(grades: Grades, exercises: Iterable[Exercise]) -> Sources:
    """By exercise id and login, the answers in each learner's newest submission as GRADES keeps them.

    Raises:
        OplabError: an answer is missing there, or was changed.
    """
    found: Sources = {}
    texts: dict[str, str] = {}
    for exercise in exercises:
        for login, handed_in in grades.submissions.items():
            task = handed_in[-1].tasks.get(exercise.id) if handed_in else None
            if task is not None:
                if task.answer not in texts:
                    texts[task.answer] = load_answer(grades.folder, task.answer)
                found.setdefault(exercise.id, {})[login] = texts[task.answer]
    return found


def of_submissions(where: str, learners: Path, exercises: Iterable[Exercise]) -> tuple[Sources, list[str]]:
    """By exercise id and login, the files in each learner's newest submission, and a sentence for whatever could not be read.

    Args:
        where: as for ``oplab class grade``.
        learners: the roster.
        exercises: those to compare.

    Raises:
        OplabError: the roster or the submissions cannot be read.
    """
    chosen = list(exercises)
    known, problems = roster.read(learners)
    newest: dict[str, submissions.Found] = {}
    for entry in submissions.scan(where, known, dict.fromkeys(exercise.file for exercise in chosen), [learners]):
        if isinstance(entry, str):
            problems.append(entry)
            continue
        problems += entry.problems
        before = newest.get(entry.learner)
        if before is None or _age(before) <= _age(entry):
            newest[entry.learner] = entry
    found: Sources = {}
    for exercise in chosen:
        texts = {
            login: text for login, entry in newest.items() if isinstance(text := entry.files.get(exercise.file), str)
        }
        if texts:
            found[exercise.id] = texts
    return found, problems


def _age(entry: submissions.Found) -> tuple[float, str]:
    """What submissions of a learner are ordered by: time, then label."""
    return (entry.submitted_at.timestamp() if entry.submitted_at else 0.0, entry.label)
