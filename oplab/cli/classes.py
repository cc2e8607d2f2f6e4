"""Commands for teachers: ``oplab class``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oplab.cli.shared import CORES, Id, Seed, leave, load_course, split, warn
from oplab.course.manifest import Course
from oplab.errors import OplabError

if TYPE_CHECKING:
    from oplab.classes.engines import Engine
    from oplab.classes.runner import Work

Grades = Annotated[Path, typer.Argument(metavar="GRADES", help="the folder that `oplab class grade` created")]
RulesFile = Annotated[
    Path | None, typer.Option("--rules", metavar="class.toml", help="what counts; kept in GRADES for the next time")
]
ManualFile = Annotated[
    Path | None,
    typer.Option(
        "--manual",
        metavar="manual.csv",
        help="your own points and comments: login,exercise,points,comment; kept in GRADES",
    ),
]
Accept = Annotated[bool, typer.Option("--accept", help="allow grades to go down")]


class ColumnsOption(StrEnum):
    """What has a column of points in the files for learning platforms."""

    total = "total"
    exercises = "exercises"


Columns = Annotated[ColumnsOption, typer.Option(help="what has a column in lms/: the total, or each exercise")]
Workers = Annotated[int, typer.Option(metavar="N", min=1, max=256, help="how many answers are graded at the same time")]

Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="grade on Dask: local:N, or a scheduler, tls://host:8786 or tcp://host:8786"),
]


def grade(
    submissions: Annotated[
        str,
        typer.Argument(
            metavar="SUBMISSIONS",
            help="what a platform lets you download; a folder of folders or archives; or a path with {login} in it",
        ),
    ],
    roster: Annotated[Path, typer.Option(metavar="F", help="a CSV file of the learners, with a column login")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="GRADES", help="the folder for the grades")],
    jobs: Workers = CORES,
    cluster: Cluster = None,
    exercises: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="c04.asinh, or c04 for a chapter; may be repeated; else all")
    ] = None,
    seed: Seed = None,
    rules: RulesFile = None,
    manual: ManualFile = None,
    columns: Columns = ColumnsOption.total,
    accept: Accept = False,
) -> None:
    """Grade a class. Run it again to resume after an interruption, or to add submissions."""
    from oplab.classes import roster as rosters
    from oplab.classes import runner
    from oplab.classes.display import Display
    from oplab.classes.rules import rules_of

    course = load_course()
    chosen = course.select(split(exercises))
    learners, _ = rosters.read(roster)
    # A mistake in them is found now, not after a night of grading.
    rules_of(out, course, learners, rules, manual, exercises=columns == "exercises")
    with Display(sys.stdout) as display:
        engine = _engine(jobs, cluster, out, Path(submissions))
        work = runner.run(course, chosen, submissions, roster, out, engine, seed=seed, listener=display)
    for problem in dict.fromkeys(work.problems):
        warn(problem)
    _say_unfinished(work)
    total = len(work.tasks)
    code = _publish(course, out, rules, manual, accept, columns)
    if work.stopping and work.done < total:
        warn(f"Stopped: {work.done} of {total} answers are graded, and kept in {out}. {runner.GO_ON}")
        leave(130)
    if work.unfinished:
        warn(f"{len(work.unfinished)} answers are not graded: no points are given or taken for them. {runner.GO_ON}")
    if work.unread:
        warn(f"Not graded, because no file of the course could be read: submissions of {', '.join(work.unread)}.")
    leave(2 if work.unfinished or work.unread else code)


def report(
    grades: Grades,
    rules: RulesFile = None,
    manual: ManualFile = None,
    columns: Columns = ColumnsOption.total,
    accept: Accept = False,
) -> None:
    """Write grade book and pages again, for example under other rules."""
    leave(_publish(load_course(), grades, rules, manual, accept, columns))


def regrade(
    id: Id,
    grades: Grades,
    why: Annotated[str, typer.Option(metavar="TEXT", help="what was wrong with the check; kept in regrades.json")],
    columns: Columns = ColumnsOption.total,
    accept: Accept = False,
    jobs: Workers = CORES,
) -> None:
    """Grade one exercise again for all, after its check was fixed."""
    from oplab.classes import publish, records, regrade, runner
    from oplab.classes.rules import rules_of

    course = load_course()
    exercise = course.exercise(id)
    if not why.strip():
        raise OplabError("--why is empty.", "Say what was wrong with the check: learners will ask.")
    used = rules_of(grades, course, records.load(grades).learners, exercises=columns == "exercises")
    with runner.writing(grades), runner.alone(grades):
        found = regrade.run(course, exercise, grades, used, _engine(jobs, None, grades))
        work = found.work
        print(f"{id}: {work.done} different answers graded again, {work.reused} known.")
        if work.stopping or work.unfinished or work.done < len(work.tasks):
            _say_unfinished(work)
            warn(f"No grade was changed, and what was graded is kept. {runner.GO_ON}")
            leave(130 if work.stopping else 2)
        if found.nothing_new:
            print(f"All answers were graded by this version of the check of {id}. Nothing changes.")
            return
        print("\n".join(found.diff()))
        if publish.lower(found.changes) and not accept:
            warn("No grade was changed. Run the same command with --accept to allow grades to go down.")
            leave(1)
        regrade.replace_grades(found, why.strip(), accepted=accept)
        code = _publish(course, grades, None, None, accept, columns)
    leave(code)


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new folder")],
    learners: Annotated[int, typer.Option(metavar="N", min=1, max=2000, help="how many learners")] = 12,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="another number creates another class")] = 0,
) -> None:
    """Create a sample class to try the other commands."""
    from oplab.classes.demo import make

    submitted = make(load_course(), folder, learners, seed)
    print(f"{submitted} and {folder / 'roster.csv'} hold a class of {learners}. Grade it:")
    print(f"  oplab class grade {submitted} --roster {folder / 'roster.csv'} -o {folder / 'grades'}")


def _say_unfinished(work: Work) -> None:
    for id, reason in work.unfinished:
        warn(f"{id} could not be graded here: {reason.splitlines()[0] if reason else 'no reason was given'}")


def _publish(
    course: Course, folder: Path, rules: Path | None, manual: Path | None, accept: bool, columns: ColumnsOption
) -> int:
    """Write all that comes out, and say so.

    Returns:
        the exit code: 0, 1 where a grade would have gone down, so that nothing was written, or 2 where something is not graded.
    """
    from oplab.classes import publish, records
    from oplab.classes.rules import rules_of

    exercises = columns == "exercises"
    grades = records.load(folder)
    used = rules_of(folder, course, grades.learners, rules, manual, exercises=exercises)
    try:
        done = publish.publish(grades, course, used, accept=accept, exercises=exercises)
    except OSError as error:
        raise OplabError(
            f"{error.filename or folder} cannot be written: {error.strerror}.",
            f"`oplab class report {folder}` writes what is missing.",
        ) from None
    for note in done.notes:
        warn(note)
    if done.files:
        print(f"{folder / 'grades.csv'} written, with lms/, learners/, feedback.zip and class.html next to it.")
        return 0 if done.complete else 2
    if done.complete:
        warn(f"These grades would be lower than in {folder / 'grades.csv'}:")
        for change in publish.lower(done.changes):
            warn(f"  {change}")
    else:
        warn(f"{folder / 'grades.csv'} stays as it was until all answers are graded.")
    given = "".join(f" --{name} {path}" for name, path in (("rules", rules), ("manual", manual)) if path is not None)
    warn(f"Nothing was written. `oplab class report {folder}{given} --accept` writes them.")
    return 1 if done.complete else 2


def _engine(jobs: int, cluster: str | None, *hidden: Path) -> Callable[[int], Engine]:
    """Makes the engine for a number of tasks. Learners' code does not see the folders ``hidden``."""
    if cluster is not None:
        from oplab.classes.dask_engine import DaskEngine

        engine = DaskEngine(cluster, hidden, say=warn)
        return lambda tasks: engine

    def make(tasks: int) -> Engine:
        from oplab.classes.local import LocalEngine

        return LocalEngine(min(jobs, tasks), [folder for folder in hidden if folder.is_dir()])

    return make


def similar(
    grades: Annotated[Path, typer.Argument(metavar="GRADES", help="the folder that `oplab class grade` created")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="F", help="the page to write")] = Path("similarity.html"),
    exercise: Annotated[
        list[str] | None,
        typer.Option(
            "--exercises", "--exercise", metavar="ID", help="c04.asinh, or c04 for a chapter; may be repeated; else all"
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(metavar="X", min=0.0, max=1.0, help="the share of the smaller answer")
    ] = 0.7,
    least: Annotated[int, typer.Option(metavar="N", min=1, help="how many tokens two answers share")] = 30,
) -> None:
    """Find answers that are alike, and write a page that shows them side by side."""
    from oplab.classes import records, similarity

    course = load_course()
    chosen = {entry.id: entry for entry in course.select(split(exercise))}
    sources = similarity.answers_of(records.load(grades), chosen.values())
    known = {id: similarity.given(course, chosen[id]) for id in sources}
    report = similarity.compare(sources, chosen, known, threshold=threshold, least=least)
    try:
        similarity.write(report, out)
    except OSError as error:
        raise OplabError(f"{out} cannot be written: {error.strerror}.", "Name another file with -o.") from None
    answers, pairs = (
        f"{n} {what}{'s' * (n != 1)}" for n, what in ((report.answers, "answer"), (len(report.pairs), "pair"))
    )
    print(f"{out}: {answers}, {pairs} alike.")
    if report.pairs:
        print("A pair is a reason to look at both answers, not a proof.")
