"""What goes back to learners: a report for each, and one archive of them in the names that a platform takes back.

``learners/<login>/results.json`` and ``report.html`` are what ``oplab check`` writes. No page needs another file or asks the network for
anything.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from datetime import datetime
from pathlib import Path

from oplab.classes.archives import is_archive
from oplab.classes.counting import Book, Row, shown
from oplab.classes.overview import class_page, number
from oplab.classes.records import Grades
from oplab.classes.rules import Rules
from oplab.classes.submissions import CANVAS, MOODLE
from oplab.course.manifest import Course
from oplab.errors import clean
from oplab.files import write_atomically
from oplab.grading.results import Results
from oplab.reports import html, markdown

REPORT = "report.html"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of each file in an archive: the same content gives the same bytes


def write(grades: Grades, book: Book, rules: Rules, course: Course, folder: Path) -> list[Path]:
    """Write ``learners/``, ``feedback.zip`` and ``class.html`` to GRADES, and return them."""
    titles = {chapter.stem: chapter.title for chapter in course.chapters}
    feedback: dict[str, str | bytes] = {}
    for row in book.rows:
        login = row.learner.login
        own = folder / "learners" / login
        own.mkdir(parents=True, exist_ok=True)
        results = learner_results(grades, row, course).as_dict()
        heading = f"{clean(row.learner.name)} ({login})" if row.learner.name else login
        notes = learner_notes(row, book, rules)
        report = html.render(results, titles, heading=heading, notes=notes)
        _keep(own / REPORT, report)
        _keep(own / "results.json", json.dumps(results, indent=1) + "\n")
        name = feedback_name(row)
        if is_archive(name):
            feedback.setdefault(name, archive({REPORT: report}))
        elif name.endswith(REPORT):
            feedback[name] = report
        else:
            feedback.setdefault(name, "\n".join([heading, "", *notes, "", markdown.render(results, titles)]))
    _keep(folder / "feedback.zip", archive(feedback))
    _keep(folder / "class.html", class_page(grades, book, course))
    return [folder / "class.html", folder / "learners", folder / "feedback.zip"]


def feedback_name(row: Row) -> str:
    """The name of a learner's report in ``feedback.zip``: as the platform takes it back from which the submission that counts comes.

    Moodle ("Upload multiple feedback files in a zip") finds the learner by the beginning of the name of a downloaded folder or file.
    Canvas ("Upload submissions" in the gradebook) wants the name of a downloaded file, and shows the learner the one that was handed in;
    of a group, one member's report is there. Without such a name it is the login.
    """
    source = re.sub(r" and \d+ more$", "", row.submission.source) if row.submission is not None else ""
    if match := MOODLE.match(source):
        return clean(f"{match[0]}file_/{REPORT}")
    return clean(source) if CANVAS.match(source) else f"{row.learner.login}/{REPORT}"


def learner_results(grades: Grades, row: Row, course: Course) -> Results:
    """The results of the submission that counts, in the order of the course. Exercises that are not graded yet are left out."""
    tasks = row.submission.tasks if row.submission is not None else {}
    seeds = {grades.verdicts[task.key].seed for task in tasks.values() if task.key in grades.verdicts}
    outcomes = tuple(row.outcomes[exercise.id] for exercise in course.exercises if exercise.id in row.outcomes)
    return Results(outcomes, min(seeds, default=0))


def learner_notes(row: Row, book: Book, rules: Rules) -> list[str]:
    """What a learner has to know about their grade besides the results, as sentences."""
    bonus = f", {shown(row.bonus)} of them as a bonus" if row.bonus else ""
    so_far = "So far, " if row.ungraded else ""
    notes = [f"{so_far}{shown(row.total)} of {shown(book.total)} points count{bonus}."]
    later = "later " if row.submission is not None else ""
    if row.submission is None and not row.too_late:
        notes.append("There is no submission.")
    elif row.submission is not None and (at := row.submission.submitted_at) is not None:
        late = f", {number(row.days_late, 'day')} after the deadline: {shown(100 * row.part)} % of the points count"
        zone = rules.deadline.tzinfo if rules.deadline is not None else at.tzinfo
        notes.append(f"Handed in {_when(at.astimezone(zone))}{late if row.days_late else ''}.")
    if row.too_late:
        notes.append(f"{number(row.too_late, f'{later}submission')} came too late.")
    if row.ungraded:
        notes.append(f"Not graded yet; their points are open: {', '.join(row.ungraded)}.")
    for id, entry in sorted(row.manual.items()):
        points = "" if entry.points is None else f"{shown(entry.points)} of {entry.most} points. "
        notes.append(f"{id}, from your teacher: {points}{entry.comment}".strip())
    return [clean(note) for note in (*notes, *(row.submission.problems if row.submission is not None else ()))]


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} {at.tzname() or ''}".strip()


def archive(files: dict[str, str | bytes]) -> bytes:
    """The files in a zip."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            made.writestr(entry, content)
    return stream.getvalue()


def _keep(path: Path, content: str | bytes) -> None:
    """Write a file. It is made from the verdicts, so a power failure may cost it: waiting for the disk 3 000 times costs more."""
    write_atomically(path, content, sync=False)
