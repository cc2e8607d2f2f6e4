"""The grade book: ``grades.csv``, one row for each learner, sorted by login."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oplab.classes.records import Grades, Learner, Submission
from oplab.files import write_atomically


def write(grades: Grades, roster: Mapping[str, Learner], rules: Any, folder: Path) -> list[Path]:
    """Write the grade book. The same verdicts give the same bytes.

    Args:
        grades: what was graded.
        roster: the learners, by login.
        rules: not used: the newest submission counts, with all of its points.
        folder: where to write ``grades.csv``.

    Returns:
        the files that were written.

    Raises:
        OSError: a file cannot be written.
    """
    counted = {login: _points(grades, (grades.submissions.get(login) or (Submission(login),))[-1]) for login in roster}
    chapters = sorted({chapter for points in counted.values() for chapter in points})
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["login", "name", *chapters, "total"])
    for login in sorted(roster):
        points = counted[login]
        table.writerow(
            [login, roster[login].name, *(points.get(chapter, 0) for chapter in chapters), sum(points.values())]
        )
    path = folder / "grades.csv"
    write_atomically(path, text.getvalue())
    return [path]


def _points(grades: Grades, submission: Submission) -> dict[str, int]:
    """Points by chapter id."""
    found: dict[str, int] = {}
    for id in submission.tasks:
        verdict = grades.verdict(submission, id)
        chapter = id.partition(".")[0]
        found[chapter] = found.get(chapter, 0) + (verdict.outcome.points if verdict else 0)
    return found
