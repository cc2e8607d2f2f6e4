"""Pages to look at and to send back: a report for each learner, with an archive of it, and one page for the class.

``learners/<login>/results.json`` and ``report.html`` are what ``oplab check`` writes; ``feedback/<login>.zip`` holds both;
``class.html`` is for the teacher. None of them needs another file or asks the network for anything.
"""

from __future__ import annotations

import io
import json
import zipfile
from datetime import datetime
from pathlib import Path

from oplab.classes import ideas
from oplab.classes.counting import Book, Row, shown
from oplab.classes.overview import overview
from oplab.classes.records import Grades
from oplab.classes.rules import Rules
from oplab.course.manifest import Course
from oplab.errors import clean
from oplab.files import write_atomically
from oplab.grading.results import Results
from oplab.reports import html

HARD = 12  # exercises that many fail, on the page
SHARED = 25  # wrong ideas on the page
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the time of each file in an archive: the same content gives the same bytes


def write(grades: Grades, book: Book, rules: Rules, course: Course, folder: Path) -> list[Path]:
    """Write ``learners/``, ``feedback/`` and ``class.html``.

    Args:
        grades: what was graded.
        book: how it counts.
        rules: by which rules.
        course: for titles and the order of exercises.
        folder: GRADES.

    Returns:
        ``class.html``, and the folders of learners and feedback.

    Raises:
        OSError: a file cannot be written.
    """
    (folder / "feedback").mkdir(parents=True, exist_ok=True)
    titles = {chapter.stem: chapter.title for chapter in course.chapters}
    for row in book.rows:
        login = row.learner.login
        own = folder / "learners" / login
        own.mkdir(parents=True, exist_ok=True)
        results = learner_results(grades, row, course).as_dict()
        heading = f"{clean(row.learner.name)} ({login})" if row.learner.name else login
        files = {
            "report.html": html.render(results, titles, heading=heading, notes=learner_notes(row, book, rules)),
            "results.json": json.dumps(results, indent=1) + "\n",
        }
        for name, text in files.items():
            _keep(own / name, text.encode())
        _keep(folder / "feedback" / f"{login}.zip", _archive(files))
    _keep(folder / "class.html", class_page(grades, book, course).encode())
    return [folder / "class.html", folder / "learners", folder / "feedback"]


def learner_results(grades: Grades, row: Row, course: Course) -> Results:
    """The results of the submission that counts, in the order of the course. Exercises that are not graded yet are left out."""
    tasks = row.submission.tasks if row.submission is not None else {}
    seeds = {grades.verdicts[task.key].seed for task in tasks.values() if task.key in grades.verdicts}
    outcomes = tuple(row.outcomes[exercise.id] for exercise in course.exercises if exercise.id in row.outcomes)
    return Results(outcomes, min(seeds, default=0))


def learner_notes(row: Row, book: Book, rules: Rules) -> list[str]:
    """What a learner has to know about their grade besides the results, as sentences."""
    if row.submission is None:
        why = f"{_number(row.too_late, 'submission')} came too late." if row.too_late else "There is no submission."
        return [f"0 of {shown(book.total)} points count. {why}"]
    notes = []
    bonus = f", {shown(row.bonus)} of them as a bonus" if row.bonus else ""
    so_far = "So far, " if row.ungraded else ""
    notes.append(f"{so_far}{shown(row.total)} of {shown(book.total)} points count{bonus}.")
    at = row.submission.submitted_at
    if at is not None:
        late = ""
        if row.days_late:
            late = (
                f", {_number(row.days_late, 'day')} after the deadline: {shown(100 * row.part)} % of the points count"
            )
        zone = rules.deadline.tzinfo if rules.deadline is not None else at.tzinfo
        notes.append(f"Handed in {_when(at.astimezone(zone))}{late}.")
    if row.too_late:
        notes.append(f"{_number(row.too_late, 'later submission')} came too late.")
    if row.ungraded:
        notes.append(f"Not graded yet, so that their points are open: {', '.join(row.ungraded)}.")
    return [clean(note) for note in (*notes, *row.submission.problems)]


def class_page(grades: Grades, book: Book, course: Course) -> str:
    """The page for the teacher, as HTML."""
    state = overview(grades, book, course, ideas.known(course))
    several = [one for one in state.shared if len(one.logins) > 1]
    return html.template("oplab.classes", "class.html.j2").render(
        course=course,
        state=state,
        book=book,
        hard=state.hard[:HARD],
        ideas=several[:SHARED],
        more_ideas=len(several[SHARED:]),
        most_of_more=max((len(one.logins) for one in several[SHARED:]), default=0),
        single_ideas=len(state.shared) - len(several),
        notes=[clean(note) for note in book.notes],
        problems=[clean(problem) for problem in grades.problems],
        ranges=_ranges(state.ranges),
        shown=shown,
        number=_number,
        duration=_duration,
        clean=clean,
    )


def _ranges(counts: tuple[int, ...]) -> list[dict[str, object]]:
    most = max(counts, default=0) or 1
    return [
        {"text": f"{10 * tenth}–{10 * tenth + 10} %", "count": count, "percent": 100 * count / most}
        for tenth, count in enumerate(counts)
    ]


def _number(count: int, what: str) -> str:
    """``1 day``, ``2 days``."""
    return f"{count} {what}{'s' * (count != 1)}"


def _when(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} {at.tzname() or ''}".strip()


def _duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _archive(files: dict[str, str]) -> bytes:
    """The files in a zip."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return stream.getvalue()


def _keep(path: Path, content: bytes) -> None:
    """Write a file. It is made from the verdicts, so a power failure may cost it: waiting for the disk 3 000 times costs more."""
    write_atomically(path, content, sync=False)
