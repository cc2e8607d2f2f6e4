"""A class that was graded, without grading: verdicts as a test needs them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from oplab.classes import records
from oplab.classes.records import Grades, Learner, Submission, Task, Verdict
from oplab.grading.results import Check, Outcome

DEADLINE = datetime(2026, 11, 1, 18, tzinfo=UTC)
STEMS = {"c00": "00_first_round_trip", "c04": "04_aten_symbolic", "c07": "07_cpp_operators"}


def outcome(id: str, status: str = "passed", points: int | None = None, of: int = 4, message: str = "") -> Outcome:
    """An outcome with one check, whose points follow from its status unless they are given."""
    points = (of if status == "passed" else 0) if points is None else points
    checks = (Check("matches", status == "passed", message),) if status in ("passed", "failed") else ()
    return Outcome(id, STEMS[id.partition(".")[0]], status, points, of, 0.5, message, checks)


class SmallClass:
    """Learners, their submissions and verdicts, in memory; :meth:`save` writes them as GRADES.

    Args:
        folder: GRADES.
        learners: the roster.
    """

    def __init__(self, folder: Path, *learners: Learner):
        self.folder = folder
        self.learners = {learner.login: learner for learner in learners}
        self.submissions: dict[str, tuple[Submission, ...]] = {login: () for login in self.learners}
        self.verdicts: dict[str, Verdict] = {}
        self.problems: tuple[str, ...] = ()

    def hand_in(
        self, login: str, outcomes: Mapping[str, Outcome | None] | list[Outcome], hours: float | None = -1.0
    ) -> Submission:
        """A submission, so many hours after the deadline; an outcome None: that answer is not graded yet."""
        if isinstance(outcomes, list):
            outcomes = {outcome.id: outcome for outcome in outcomes}
        tasks = {}
        for id, graded in outcomes.items():
            answer = records.sha256(f"{id} {graded}")
            key = records.task_key(id, "1", answer)
            tasks[id] = Task(id, key, answer)
            if graded is not None:
                versions = {"grader": "1", "torch": "2.15.0"}
                self.verdicts[key] = Verdict(key, id, graded, 7, versions, answer, 2.0, "lab-1", DEADLINE)
        at = None if hours is None else DEADLINE + timedelta(hours=hours)
        made = Submission(login, f"{len(self.submissions[login])}", at, f"{login}.zip", tasks)
        self.submissions[login] += (made,)
        return made

    def grades(self) -> Grades:
        """What was handed in and graded."""
        return Grades(self.folder, self.learners, self.submissions, self.verdicts, {}, self.problems)

    def save(self) -> Grades:
        """Write the folder GRADES, and read it again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for verdict in self.verdicts.values():
            records.save_verdict(self.folder, verdict)
        records.save_submissions(self.folder, self.learners, self.submissions, self.problems)
        records.save_run(self.folder, {})
        return records.load(self.folder)
