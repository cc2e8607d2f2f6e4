"""Commands for learners: the exercises, their grades, hints and reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from oplab import paths
from oplab.cli.shared import (
    FEW_CORES,
    Gradescope,
    Html,
    Id,
    Ids,
    Jobs,
    Json,
    Junit,
    Markdown,
    Seed,
    leave,
    load_course,
    split,
    warn,
)
from oplab.course import stubs
from oplab.course.language import gettext
from oplab.course.manifest import Course, Exercise, preloads
from oplab.errors import OplabError
from oplab.grading import progress as progressing
from oplab.grading.overview import open_exercises, overview, skipped
from oplab.grading.results import Results


def list_(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """List chapters and exercises with points and your progress."""
    course = load_course()
    reached = progressing.load(course.root / "build", warn)
    if as_json:
        print(json.dumps(overview(course, reached), indent=1))
        return
    _print_table(course, reached)
    done = sum(reached.entry(exercise.id).passed for exercise in course.exercises)
    print("\n" + gettext("{done} of {count} exercises passed.", done=done, count=len(course.exercises)))


def next_() -> None:
    """Show the next exercise that has not passed yet."""
    course = load_course()
    reached = progressing.load(course.root / "build", warn)
    if not (following := open_exercises(course, reached)):
        print(gettext("Every exercise has passed."))
        return
    exercise = following[0]
    chapter = course.chapter(exercise.chapter)
    if exercise.deeper:
        print(gettext("The core path is finished. Optional exercises:"))
    print(f"{exercise.id}: {exercise.goal}")
    place = f"exercises/{exercise.file}{_line(course, exercise)}"
    check, help = f"oplab check {exercise.id}", f"oplab hint {exercise.id}"
    for line in (
        gettext(
            "{points} points, about {minutes} minutes, difficulty {difficulty} of 5",
            points=exercise.points,
            minutes=exercise.minutes,
            difficulty=exercise.difficulty,
        ),
        gettext("write it in {place}", place=place),
        gettext("the lesson: {file}", file=chapter.notebook),
        gettext("then: {check}      help: {help}", check=check, help=help),
    ):
        print(f"  {line}")
    if before := skipped(course, reached, exercise):
        more = ", ".join(f"{other.id} ({other.minutes} minute{'s' * (other.minutes != 1)})" for other in before)
        print(f"Deeper, in chapters that you have finished: {more}")


def hint(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="an exercise (c04.asinh, asinh); nothing for the next one")
    ] = None,
) -> None:
    """Show the next hint. After a pass: all hints and the reference."""
    course = load_course()
    if id is not None:
        exercise = course.exercise(id)
    else:
        following = open_exercises(course, progressing.load(course.root / "build", warn))
        if not following:
            call = f"`oplab hint {course.exercises[0].id}`"
            print(gettext("Every exercise has passed. {call} shows the hints of one again.", call=call))
            return
        exercise = following[0]
        print(f"{exercise.id}: {exercise.goal}")
    from oplab.grading.hints import hint_lines

    print("\n".join(hint_lines(course, exercise, warn)))


def check(
    ids: Ids = None,
    submission: Annotated[
        Path | None, typer.Option(metavar="DIR", help="grade this folder, laid out like exercises/")
    ] = None,
    track: Annotated[str | None, typer.Option(metavar="NAME", help="exercises (the default) or solutions")] = None,
    json_file: Json = None,
    junit: Junit = None,
    html: Html = None,
    gradescope: Gradescope = None,
    markdown: Markdown = None,
    sanitize: Annotated[bool, typer.Option("--sanitize", help="build C++ with AddressSanitizer and UBSan")] = False,
    isolate: Annotated[
        bool,
        typer.Option("--isolate", help="no network, read-only course, hidden solutions, where Linux supports it"),
    ] = False,
    jobs: Jobs = FEW_CORES,
    seed: Seed = None,
) -> None:
    """Grade exercises: all, a chapter (c04) or one (asinh)."""
    _one_folder(submission, track)
    course = load_course()
    exercises = course.select(split(ids))
    used = track or paths.track()
    folder = submission if submission is not None else paths.part(course.root, used)
    targets = _targets(json=json_file, junit=junit, html=html, gradescope=gradescope, markdown=markdown)
    from oplab.grading.client import Server
    from oplab.grading.grader import grade
    from oplab.grading.text import summary

    out = sys.stderr if any(str(path) == "-" for path in targets.values()) else sys.stdout
    if isolate:
        from oplab.grading.isolation import detect

        print(detect(course.root, folder).sentence(), file=out)
    with _Display(len(exercises), out) as display, ExitStack() as stack:
        pictures = bool({"json", "html"} & set(targets))
        server = None
        if pictures:
            server = _keeping_server(course, exercises, folder, sanitize, isolate)
        elif submission is None and used == "exercises" and not (sanitize or isolate):
            server = Server.shared(course, preloads(exercises))
        results = grade(
            course,
            exercises,
            folder,
            jobs=jobs,
            seed=seed,
            sanitize=sanitize,
            server=server and stack.enter_context(server),
            listener=display,
            isolate=isolate and server is None,  # one that keeps evidence is isolated itself
        )
        if pictures:
            from oplab.reports.graphs import with_graphs

            results = with_graphs(results, server.kept)
    ended = gettext("{summary}. Inputs: {seed}", summary=summary(results), seed=f"--seed {results.seed}")
    print(f"\n{ended}", file=out, flush=True)
    if submission is None and used == "exercises":
        _remember(course, results)
        if results.exit_code in (0, 1):
            _suggest(course, results, out)
    _write_reports(results.as_dict(), targets, _titles(course))
    leave(results.exit_code)


def watch(jobs: Jobs = 2) -> None:
    """Grade again whenever you save an exercise. Keys: h hint, n next, l list, a all, q quit."""
    from oplab.cli.watch import watch as run

    run(load_course(), jobs=jobs)


def diff(
    id: Id,
    show: Annotated[bool, typer.Option("--show", help="after the last hint; the exercise then counts half")] = False,
) -> None:
    """Show how your answer differs from the reference, after a pass."""
    course = load_course()
    exercise = course.exercise(id)
    from oplab.grading.hints import locked

    if why := locked(course, exercise, f"`oplab hint {id}`", f"`oplab diff {id} --show`", show, warn):
        warn(why)
        leave(1)
    from oplab.course import answers

    lines = answers.diff(course, exercise)
    print("\n".join(lines) if lines else gettext("Your answer and the reference are the same."))


def reset(
    id: Annotated[
        str,
        typer.Argument(metavar="ID", help="an exercise (c04.asinh), a chapter's file (c04) or a lesson (notebooks/04)"),
    ],
) -> None:
    """Restore the stub of an exercise, or your copy of a lesson. Your file is kept in build/backup/."""
    course = load_course()
    from oplab.course import answers, copies

    if (chapter := copies.named(course, id)) is not None:
        file, backup = copies.reset(course, chapter)
        print(gettext("{file}: restored.", file=file.relative_to(course.root)), *_kept(course, backup))
        print(gettext("If it is open in JupyterLab: File > Reload Notebook from Disk."))
        return
    target = course.target(id)
    paths.build_dir()
    for file, backup in answers.reset(course, target):
        name = file.relative_to(course.root)
        print(gettext("{file}: {id} reset to the stub.", file=name, id=target.id), *_kept(course, backup))
    ids = [exercise.id for exercise in course.select([target.id])]
    progressing.forget(course.root / "build", ids, warn)


def _kept(course: Course, backup: Path | None) -> list[str]:
    """Where the file is that was there before."""
    return [gettext("Your version is saved in {file}.", file=backup.relative_to(course.root))] if backup else []


def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS.json", help="what `oplab check --json` wrote")],
    junit: Junit = None,
    html: Html = None,
    gradescope: Gradescope = None,
    markdown: Markdown = None,
) -> None:
    """Write reports of an earlier run, without grading again."""
    targets = _targets(junit=junit, html=html, gradescope=gradescope, markdown=markdown)
    if not targets:
        raise OplabError("There is nothing to write.", "Name --html F, --markdown F, --junit F or --gradescope F.")
    from oplab import reports

    try:
        titles = _titles(load_course())
    except OplabError:  # a report needs no course: then its chapters are called by their stems
        titles = {}
    _write_reports(reports.read(results), targets, titles)


def doctor() -> None:
    """Check versions, compiler and headers; name what is missing."""
    from oplab.doctor import main as examine

    leave(examine())


def _print_table(course: Course, reached: progressing.Progress) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("", "left"),
        ("exercise", "left"),
        ("goal", "left"),
        ("points", "right"),
        ("minutes", "right"),
        ("level", "left"),
    ):
        table.add_column(name, justify=justify, overflow="fold")
    for chapter in course.chapters:
        got = sum(reached.entry(exercise.id).points for exercise in chapter.exercises)
        table.add_row(
            "",
            f"[bold]{chapter.id}[/]",
            f"[bold]{chapter.title}[/]",
            f"{got}/{chapter.points}",
            " + ".join(str(minutes) for minutes in (chapter.minutes, chapter.deeper_minutes) if minutes),
            "",
        )
        for exercise in sorted(chapter.exercises, key=lambda exercise: exercise.deeper):
            entry = reached.entry(exercise.id)
            level = "●" * exercise.difficulty + "○" * (5 - exercise.difficulty)
            table.add_row(
                entry.look[0],
                exercise.id,
                exercise.goal,
                f"{entry.points}/{exercise.points}",
                str(exercise.minutes),
                level + "  repair" * exercise.repair + "  deeper" * exercise.deeper + "  counts half" * entry.shown,
            )
    Console().print(table)
    print("\n".join(_hours(course)))


def _hours(course: Course) -> list[str]:
    """How long the course takes, as lines."""

    def hours(minutes: Iterable[int]) -> int:
        return round(sum(minutes) / 60)

    chapters = [chapter for chapter in course.chapters if not chapter.appendix]
    core = hours(chapter.minutes for chapter in chapters)
    practice = hours(exercise.minutes for chapter in chapters for exercise in chapter.exercises if not exercise.deeper)
    lines = [
        f"The core path takes about {core} hours: {practice} for its exercises, and {core - practice} for its lessons."
    ]
    if deeper := hours(chapter.deeper_minutes for chapter in chapters):
        lines.append(
            f"Optional sections: about {deeper} more hours; `oplab next` offers their exercises after the core."
        )
    for chapter in course.chapters:
        if chapter.appendix:
            lines.append(f"{chapter.title}, if you need it: {chapter.minutes} minutes ({chapter.notebook}).")
    return lines


class _Display:
    """Prints outcomes as they arrive; on a terminal it also shows what is running."""

    def __init__(self, total: int, out: object):
        from rich.console import Console

        self._console = Console(file=out, highlight=False, markup=False, soft_wrap=True)
        self._status = None
        self._total, self._done, self._running = total, 0, dict[str, None]()

    def __enter__(self) -> _Display:
        if self._console.is_terminal:
            self._status = self._console.status(gettext("loading torch, onnx and onnxruntime …"))
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def __call__(self, exercise: Exercise, outcome: object) -> None:
        from oplab.grading.text import outcome_lines, outcome_text

        if outcome is None:
            self._running[exercise.id] = None
        else:
            self._running.pop(exercise.id, None)
            self._done += 1
            details = not outcome.passed
            if self._console.is_terminal:
                self._console.print(outcome_text(outcome, self._console.width, details=details))
            else:
                self._console.print("\n".join(outcome_lines(outcome, details=details)))
        if self._status:
            self._status.update(
                gettext(
                    "{done} of {count} · grading {ids}",
                    done=self._done,
                    count=self._total,
                    ids=", ".join(self._running),
                )
            )


def _one_folder(submission: Path | None, track: str | None) -> None:
    if submission is not None and track is not None:
        raise OplabError("--submission and --track exclude each other.", "Omit one of them.")
    if track is not None and track not in paths.TRACKS:
        raise OplabError(f"There is no track {track}.", f"It can be {' or '.join(paths.TRACKS)}.")


def _titles(course: Course) -> dict[str, str]:
    return {chapter.stem: chapter.title for chapter in course.chapters}


def _targets(**files: Path | None) -> dict[str, Path]:
    """The reports that are asked for."""
    targets = {format: path for format, path in files.items() if path is not None}
    if targets:
        from oplab.reports import check_targets

        check_targets(targets)
    return targets


def _write_reports(results: dict[str, Any], targets: dict[str, Path], titles: dict[str, str]) -> None:
    """Write each report; one that cannot be written ends the command."""
    if targets:
        from oplab import reports

        problems = reports.write(results, targets, titles)
        for problem in problems:
            warn(f"oplab: {problem}")
        if problems:
            leave(2)


def _keeping_server(course: Course, exercises: Sequence[Exercise], folder: Path, sanitize: bool, isolate: bool) -> Any:
    """A server that keeps rejected models, so that the report can show them."""
    from oplab.grading.client import Server
    from oplab.grading.isolation import detect

    env = None
    if sanitize:
        from oplab.toolchain.build import sanitizer_env

        env = sanitizer_env()
    isolation = detect(course.root, folder) if isolate else None
    return Server(preloads(exercises), env=env, isolation=isolation, keep=True)


def _remember(course: Course, results: object) -> None:
    try:
        folder = paths.build_dir()
    except OplabError as error:
        warn(f"Progress is not saved: {error.message}")
        return
    progressing.record(folder, results, warn)


def _suggest(course: Course, results: Results, out: object) -> None:
    """Print what to do next: the exercise that has just failed, else the next open one of the core path, else the first open one."""
    graded = {outcome.id for outcome in results.exercises}
    failed = {outcome.id for outcome in results.exercises if not outcome.passed}
    order = course.exercises
    again = next((exercise for exercise in order if exercise.id in failed), None)
    latest = [exercise for exercise in order if exercise.id in graded][-1]
    following = open_exercises(course, progressing.load(course.root / "build"), latest.chapter)
    if exercise := again or next(iter(following), None):
        print(
            gettext(
                "Next: {id} in {place}. Help: {call}",
                id=exercise.id,
                place=f"exercises/{exercise.file}{_line(course, exercise)}",
                call=f"oplab hint {exercise.id}",
            ),
            file=out,
        )


def _line(course: Course, exercise: Exercise) -> str:
    """``, line 12``: where the exercise's TODO or function is in the learner's file."""
    try:
        text = (course.root / "exercises" / exercise.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    line = stubs.line_of(text, exercise.id, exercise.name)
    return gettext(", line {line}", line=line) if line else ""
