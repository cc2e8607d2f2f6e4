"""Commands for teachers: ``oplab class``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from oplab.classes.engines import Engine
from oplab.cli.shared import CORES, Seed, leave, load_course, split, warn
from oplab.errors import OplabError

Grades = Annotated[Path, typer.Argument(metavar="GRADES", help="the folder that `oplab class grade` has made")]
Workers = Annotated[int, typer.Option(metavar="N", min=1, max=256, help="how many answers are graded at the same time")]


def grade(
    submissions: Annotated[
        str,
        typer.Argument(
            metavar="SUBMISSIONS",
            help="a folder of folders, archives or git repositories, or a path or URL with {login} in it",
        ),
    ],
    roster: Annotated[Path, typer.Option(metavar="F", help="a CSV file of the learners, with a column login")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="GRADES", help="the folder for the grades")],
    jobs: Workers = CORES,
    exercises: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="c04.asinh, or c04 for a chapter; may be repeated; else all")
    ] = None,
    seed: Seed = None,
) -> None:
    """Grade a class. Run it again to go on after a stop, or after new submissions."""
    from oplab.classes import gradebook, records, runner
    from oplab.classes.display import Display

    course = load_course()
    chosen = course.select(split(exercises))
    with Display(sys.stdout) as display:
        work = runner.run(
            course, chosen, submissions, roster, out, _local(jobs, out, Path(submissions)), seed=seed, listener=display
        )
    for problem in work.problems:
        warn(problem)
    for id, reason in work.unfinished:
        warn(f"{id} could not be graded here: {reason.splitlines()[0] if reason else 'no reason was given'}")
    grades = records.load(out)
    try:
        written = gradebook.write(grades, grades.learners, None, out)
    except OSError as error:
        raise OplabError(f"{error.filename or out} cannot be written: {error.strerror}.", runner.GO_ON) from None
    total = len(work.tasks)
    if work.stopping and work.done < total:
        warn(f"Stopped: {work.done} of {total} answers are graded, and kept in {out}. {runner.GO_ON}")
        leave(130)
    print(f"{', '.join(str(path) for path in written)} written.")
    if work.unfinished:
        warn(f"{len(work.unfinished)} answers are not graded: no points are given or taken for them. {runner.GO_ON}")
        leave(2)


def verify(
    grades: Grades,
    sample: Annotated[int, typer.Option(metavar="N", min=1, help="how many verdicts, chosen at random")] = 20,
    jobs: Workers = CORES,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="choose the same verdicts again")] = None,
) -> None:
    """Grade a sample again from the kept answers, and compare."""
    import secrets

    from oplab.classes import records, verify

    course = load_course()
    kept = records.load(grades)
    seed = secrets.randbits(31) if seed is None else seed
    chosen = verify.sample(kept, sample, seed)
    if not chosen:
        raise OplabError(f"{grades} holds no verdict for which code ran.", "Nothing has to be verified.")
    found = verify.verify(course, kept, chosen, _local(jobs, grades)(len(chosen)))
    for difference in found:
        warn(f"{difference.kept.exercise}, {difference.kept.key[:12]}: {difference.sentence}")
    same = len(chosen) - len(found)
    print(
        f"{same} of {len(chosen)} verdicts came out again as they are kept. The sample: --sample {sample} --seed {seed}"
    )
    leave(1 if found else 0)


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new folder")],
    learners: Annotated[int, typer.Option(metavar="N", min=1, max=2000, help="how many learners")] = 12,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="another number makes another class")] = 0,
) -> None:
    """Make a class to try the other commands on."""
    from oplab.classes.demo import make

    submitted = make(load_course(), folder, learners, seed)
    print(f"{submitted} and {folder / 'roster.csv'} hold a class of {learners}. Grade it:")
    print(f"  oplab class grade {submitted} --roster {folder / 'roster.csv'} -o {folder / 'grades'}")


def _local(jobs: int, *hidden: Path) -> Callable[[int], Engine]:
    """Makes the engine for a number of tasks. Learners' code does not see the folders ``hidden``."""

    def make(tasks: int) -> Engine:
        from oplab.classes.local import LocalEngine

        return LocalEngine(min(jobs, tasks), [folder for folder in hidden if folder.is_dir()])

    return make
