"""The ``oplab`` command. Exit codes: 0 all right, 1 not everything passed, 2 the call or the grader is at fault, 130 Ctrl-C."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from oplab import paths
from oplab.course.manifest import Course, Exercise, load, preloads
from oplab.debug import cli as debug_cli
from oplab.errors import OplabError
from oplab.grading import progress as progressing
from oplab.grading.results import Results

app = typer.Typer(
    help="Operator Lab: grade your exercises, get hints, look at graphs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="c04.asinh, c04 for a chapter, nothing for all")
]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="F", help="write JUnit XML to F, for CI servers")]
Html = Annotated[Path | None, typer.Option("--html", metavar="F", help="write one self-contained page to F")]
Gradescope = Annotated[
    Path | None, typer.Option("--gradescope", metavar="F", help="write Gradescope's results.json to F")
]
Markdown = Annotated[Path | None, typer.Option("--markdown", metavar="F", help="write a table with details to F")]
Id = Annotated[str, typer.Argument(metavar="ID", help="an exercise, for example c04.asinh")]


class Stopped(Exception):
    """Ctrl-C during a command: typer would swallow KeyboardInterrupt without a word."""


def main() -> None:
    """Entry point of the ``oplab`` command: a user's mistake is a sentence, never a traceback."""
    try:
        app()
    except OplabError as error:
        print(f"oplab: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, Stopped):
        print("\nStopped. Nothing was lost.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `oplab list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Chapters and exercises with points, minutes and how far you are."""
    course = _course()
    reached = progressing.load(course.root / "build", _warn)
    if as_json:
        chapters = [
            {
                "stem": chapter.stem,
                "title": chapter.title,
                "minutes": chapter.minutes,
                "notebook": chapter.notebook,
                "exercises": [
                    {
                        "id": exercise.id,
                        "goal": exercise.goal,
                        "points": exercise.points,
                        "reached": reached.entry(exercise.id).points,
                        "difficulty": exercise.difficulty,
                        "minutes": exercise.minutes,
                        "file": f"exercises/{exercise.file}",
                        "status": reached.entry(exercise.id).status,
                    }
                    for exercise in chapter.exercises
                ],
            }
            for chapter in course.chapters
        ]
        print(json.dumps({"version": 1, "chapters": chapters}, indent=1))
        return
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
    from oplab.grading.text import MARKS

    for chapter in course.chapters:
        got = sum(reached.entry(exercise.id).points for exercise in chapter.exercises)
        table.add_row(
            "",
            f"[bold]{chapter.id}[/]",
            f"[bold]{chapter.title}[/]",
            f"{got}/{chapter.points}",
            str(chapter.minutes),
            "",
        )
        for exercise in chapter.exercises:
            entry = reached.entry(exercise.id)
            level = "●" * exercise.difficulty + "○" * (5 - exercise.difficulty)
            table.add_row(
                MARKS[entry.status],
                exercise.id,
                exercise.goal,
                f"{entry.points}/{exercise.points}",
                str(exercise.minutes),
                level,
            )
    Console().print(table)
    done = sum(reached.entry(exercise.id).status == "passed" for exercise in course.exercises)
    print(f"\n{done} of {len(course.exercises)} exercises passed.")


@app.command()
def check(
    ids: Ids = None,
    submission: Annotated[
        Path | None, typer.Option(metavar="DIR", help="grade this folder, laid out like exercises/")
    ] = None,
    track: Annotated[str | None, typer.Option(help="exercises (the default) or solutions")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="F", help="write the results as JSON to F, - for stdout")
    ] = None,
    junit: Junit = None,
    html: Html = None,
    gradescope: Gradescope = None,
    markdown: Markdown = None,
    sanitize: Annotated[bool, typer.Option("--sanitize", help="build C++ with AddressSanitizer and UBSan")] = False,
    isolate: Annotated[
        bool,
        typer.Option("--isolate", help="no network, read-only course, no solutions in sight, where Linux offers it"),
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="how many exercises run at the same time")] = min(
        2, os.cpu_count() or 1
    ),
    seed: Annotated[int | None, typer.Option(min=0, help="repeat the inputs of an earlier run")] = None,
) -> None:
    """Grade exercises: all of them, a chapter (c04) or one (c04.asinh)."""
    if submission is not None and track is not None:
        raise OplabError("--submission and --track exclude each other.", "Leave one of them out.")
    if track is not None and track not in paths.TRACKS:
        raise OplabError(f"There is no track {track}.", f"It can be {' or '.join(paths.TRACKS)}.")
    course = _course()
    exercises = course.select(_split(ids))
    used = track or paths.track()
    folder = submission if submission is not None else course.root / used
    targets = _targets(json=json_file, junit=junit, html=html, gradescope=gradescope, markdown=markdown)
    from oplab import reports
    from oplab.grading.grader import grade
    from oplab.grading.text import summary

    out = sys.stderr if any(str(path) == "-" for path in targets.values()) else sys.stdout
    if isolate:
        from oplab.grading.isolation import detect

        print(detect(course.root, folder).sentence(), file=out)
    try:
        with _Display(len(exercises), out) as display, ExitStack() as stack:
            keeper = None
            if {"json", "html"} & set(targets):
                keeper = stack.enter_context(_keeper(course, exercises, folder, sanitize, isolate))
            results = grade(
                course,
                exercises,
                folder,
                jobs=jobs,
                seed=seed,
                sanitize=sanitize,
                server=keeper,
                listener=display,
                isolate=isolate and keeper is None,  # a keeper is isolated itself
            )
            if keeper is not None:
                from oplab.reports.graphs import with_graphs

                results = with_graphs(results, keeper.kept)
    except KeyboardInterrupt:
        raise Stopped from None
    print(f"\n{summary(results)}. Inputs: --seed {results.seed}", file=out, flush=True)
    if submission is None and used == "exercises":
        _remember(course, results)
        if results.exit_code in (0, 1):
            _suggest(course, results, out)
    problems = reports.write(results.as_dict(), targets, _titles(course))
    for problem in problems:
        print(f"oplab: {problem}", file=sys.stderr)
    raise typer.Exit(2 if problems else results.exit_code)


@app.command()
def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS.json", help="what `oplab check --json` wrote")],
    junit: Junit = None,
    html: Html = None,
    gradescope: Gradescope = None,
    markdown: Markdown = None,
) -> None:
    """Make reports of an earlier run, without grading again."""
    targets = _targets(junit=junit, html=html, gradescope=gradescope, markdown=markdown)
    if not targets:
        raise OplabError("There is nothing to write.", "Name --html F, --markdown F, --junit F or --gradescope F.")
    from oplab import reports

    try:
        titles = _titles(_course())
    except OplabError:  # a report needs no course; its chapters are then called by their stems
        titles = {}
    problems = reports.write(reports.read(results), targets, titles)
    for problem in problems:
        print(f"oplab: {problem}", file=sys.stderr)
    raise typer.Exit(2 if problems else 0)


@app.command()
def watch(
    jobs: Annotated[int, typer.Option(min=1, max=64, help="how many exercises run at the same time")] = 2,
) -> None:
    """Grade again whenever you save an exercise. Keys: h hint, n next, l list, a all, q quit."""
    from oplab.cli.watch import watch as run

    try:
        run(_course(), jobs=jobs)
    except KeyboardInterrupt:
        raise Stopped from None


@app.command("next")
def next_() -> None:
    """The next exercise that has not passed yet."""
    course = _course()
    reached = progressing.load(course.root / "build", _warn)
    exercise = _next(course, reached)
    if exercise is None:
        print("Every exercise has passed.")
        return
    chapter = course.chapter(exercise.chapter)
    print(f"{exercise.id}: {exercise.goal}")
    print(f"  {exercise.points} points, about {exercise.minutes} minutes, difficulty {exercise.difficulty} of 5")
    print(f"  write it in exercises/{exercise.file}{_line(course, exercise)}")
    print(f"  the lesson: {chapter.notebook}")
    print(f"  then: oplab check {exercise.id}      help: oplab hint {exercise.id}")


@app.command()
def hint(id: Id) -> None:
    """The next hint for an exercise. After a pass: all hints and the reference."""
    course = _course()
    exercise = course.exercise(id)
    from oplab.lessons import hint_lines

    print("\n".join(hint_lines(course, exercise)))


@app.command()
def diff(id: Id) -> None:
    """How your answer differs from the reference, once it has passed."""
    course = _course()
    exercise = course.exercise(id)
    if not progressing.load(course.root / "build", _warn).entry(id).passed_once:
        print(
            f"{id} has not passed yet. The reference is shown after a pass; `oplab hint {id}` helps until then.",
            file=sys.stderr,
        )
        raise typer.Exit(1)
    from oplab.course import answers

    lines = answers.diff(course, exercise)
    print("\n".join(lines) if lines else "Your answer and the reference are the same.")


@app.command()
def reset(
    id: Annotated[str, typer.Argument(metavar="ID", help="an exercise (c04.asinh) or a chapter's file (c04)")],
) -> None:
    """Restore the stub of an exercise. Your file is kept in build/backup/."""
    course = _course()
    from oplab.course import answers

    target = course.exercise(id) if "." in id else course.chapter(id)
    paths.build_dir()
    for file, backup in answers.reset(course, target):
        kept = f" Yours is kept as {backup.relative_to(course.root)}." if backup else ""
        print(f"{file.relative_to(course.root)}: {id} is the stub again.{kept}")
    ids = [exercise.id for exercise in course.select([id])]
    with progressing.update(course.root / "build", _warn) as progress:
        for name in ids:
            if name in progress.exercises:
                progress.exercises[name].status, progress.exercises[name].points = "todo", 0


@app.command()
def show(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL.onnx [OTHER.onnx]", help="one model, or two to compare")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="F", help="write .svg, .png or .html instead")
    ] = None,
) -> None:
    """Look at the graph of a model: in the browser, or as a file with -o."""
    from oplab.viewer import cli_show

    cli_show(models, output)


app.add_typer(debug_cli.app, name="debug")


@app.command("parity")
def parity_(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="the model")],
    inputs: Annotated[
        Path | None, typer.Option("--inputs", metavar="X.npz", help="an array for each input by name; else random ones")
    ] = None,
    dims: Annotated[
        list[str] | None, typer.Option("--dims", metavar="NAME=N", help="a dimension's size, for random inputs")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="of random inputs")] = 0,
    backends: Annotated[
        str, typer.Option(metavar="A,B", help="which of eager, exported, reference, ort, host; the first is the base")
    ] = "",
    module: Annotated[
        str, typer.Option(metavar="FILE.py:NAME", help="the PyTorch function or module, for eager and exported")
    ] = "",
    library: Annotated[
        list[Path] | None, typer.Option("--library", metavar="FILE", help="a custom-op library; may be repeated")
    ] = None,
    rtol: Annotated[float | None, typer.Option(min=0, help="relative tolerance of floats")] = None,
    atol: Annotated[float | None, typer.Option(min=0, help="absolute tolerance of floats")] = None,
    times: Annotated[bool, typer.Option("--times", help="measure each backend too")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="F", help="write the rows as JSON to F, - for stdout")
    ] = None,
) -> None:
    """Run a model in several backends and compare. Exit 0 they agree, 1 they do not, 2 the call is wrong."""
    from oplab.parity.command import Call, run

    call = Call(model, inputs, dims or [], seed, backends, module, library or [], rtol, atol, times, json_file)
    try:
        raise typer.Exit(run(call))
    except KeyboardInterrupt:
        raise Stopped from None


@app.command("new-exercise")
def new_exercise(
    id: Annotated[str, typer.Argument(metavar="ID", help="for example c05.clip; a new number makes a new chapter")],
    goal: Annotated[str, typer.Option(help="one line that says what the code has to do")],
    title: Annotated[str, typer.Option(help="the title of a new chapter")] = "",
    kind: Annotated[
        str, typer.Option(help="python, ort (ONNX Runtime kernel) or torch (stable-ABI operator)")
    ] = "python",
    points: Annotated[int, typer.Option(min=1, max=100)] = 2,
    difficulty: Annotated[int, typer.Option(min=1, max=5)] = 2,
    minutes: Annotated[int, typer.Option(min=1, max=600)] = 10,
) -> None:
    """For authors: begin an exercise, with solution, stub, check, mutant, notebook cell and manifest entry."""
    from oplab.authoring.new import Plan, create

    course = _course()
    plan = Plan(id, goal, title, kind, points, difficulty, minutes)
    for path in create(course, plan):
        print(path.relative_to(course.root))
    print(f"\nWhat is yours to write is marked WRITE:. `oplab lint-course {id}` lists what is still missing.")


@app.command("lint-course")
def lint_course(
    ids: Ids = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="how many answers are graded at the same time")] = min(
        64, os.cpu_count() or 1
    ),
    fast: Annotated[bool, typer.Option("--fast", help="look at the files only, grade nothing")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="grade each answer so often, on fresh inputs each time")] = 1,
    answers: Annotated[
        str, typer.Option(metavar="KIND", help="right, wrong or all; right ones if they are repeated, else all")
    ] = "",
    seed: Annotated[int | None, typer.Option(min=0, help="repeat the inputs of a run that went wrong")] = None,
) -> None:
    """For authors: prove what the course promises of every exercise."""
    from oplab.authoring import lint

    answers = answers or ("right" if repeat > 1 else "all")
    if answers not in lint.KINDS:
        raise OplabError(f"There are no {answers} answers.", f"--answers can be {', '.join(lint.KINDS)}.")
    if seed is not None and repeat > 1:
        raise OplabError("--seed and --repeat exclude each other.", "One seed gives the same inputs each time.")
    course = _course()
    chosen = {exercise.id for exercise in course.select(_split(ids))}
    kinds = () if fast else lint.KINDS[answers]
    try:
        findings = [finding for finding in lint.lint(course) if not ids or lint.concerns(course, finding, chosen)]
        for finding in findings:
            print(finding)
        trials = [trial for trial in lint.trials(course) if trial.exercise.id in chosen and trial.kind in kinds]
        if trials:
            findings += _graded(course, trials, jobs, repeat, seed)
    except KeyboardInterrupt:
        raise Stopped from None
    times = f" {repeat} times" if repeat > 1 else ""
    looked = f"{len(chosen)} exercises, {len(lint.RULES)} rules, {len(trials)} answers graded{times}"
    print(f"{looked}: {f'{len(findings)} findings' if findings else 'all as promised'}.")
    raise typer.Exit(1 if findings else 0)


def _graded(course: Course, trials: Sequence[Any], jobs: int, repeat: int, seed: int | None) -> list[Any]:
    """Grade known answers, with a bar on stderr. Findings are printed as they come where that can take hours, else in order."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    from oplab.authoring import lint

    total, ended, bad = len(trials) * repeat, 0, 0

    def done(finding: lint.Finding | None) -> None:
        nonlocal ended, bad
        ended += 1
        if finding is not None:
            bad += 1
            if repeat > 1:
                print(finding, flush=True)
            progress.update(task, description=f"grading known answers, {bad} findings")
        progress.advance(task)
        if not console.is_terminal and repeat > 1 and ended % len(trials) == 0:
            print(f"{ended} of {total} runs, {bad} findings", file=sys.stderr, flush=True)

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty())
    try:
        with bar as progress:
            task = progress.add_task("grading known answers", total=total)
            found = lint.run(course, trials, jobs, done, repeat, seed)
    except KeyboardInterrupt:
        print(f"\n{ended} of {total} runs, {bad} findings.", file=sys.stderr)
        raise
    if repeat == 1:
        for finding in found:
            print(finding)
    return found


@app.command()
def doctor() -> None:
    """Versions, compiler, headers, and what is missing."""
    from oplab.doctor import main as examine

    raise typer.Exit(examine())


class _Display:
    """Prints outcomes as they come; on a terminal it also shows what is running."""

    def __init__(self, total: int, out: object):
        from rich.console import Console

        self._console = Console(file=out, highlight=False, markup=False, soft_wrap=True)
        self._status = None
        self._total, self._done, self._running = total, 0, dict[str, None]()

    def __enter__(self) -> _Display:
        if self._console.is_terminal:
            self._status = self._console.status("loading torch, onnx and onnxruntime …")
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
            self._status.update(f"{self._done} of {self._total} · grading {', '.join(self._running)}")


def _course() -> Course:
    return load(paths.root())


def _titles(course: Course) -> dict[str, str]:
    return {chapter.stem: chapter.title for chapter in course.chapters}


def _targets(**files: Path | None) -> dict[str, Path]:
    """The reports that are asked for; raises OplabError when it is clear already that one cannot be written."""
    from oplab.reports import check_targets

    targets = {format: path for format, path in files.items() if path is not None}
    check_targets(targets)
    return targets


def _keeper(course: Course, exercises: Sequence[Exercise], folder: Path, sanitize: bool, isolate: bool) -> Any:
    """A server that keeps rejected models, so that the report can show them."""
    from oplab.grading.isolation import detect
    from oplab.reports.graphs import Keeper

    env = None
    if sanitize:
        from oplab.toolchain.build import sanitizer_env

        env = sanitizer_env()
    return Keeper(preloads(exercises), env=env, isolation=detect(course.root, folder) if isolate else None)


def _split(ids: Sequence[str] | None) -> list[str]:
    return [part for id in ids or () for part in id.replace(",", " ").split()]


def _remember(course: Course, results: object) -> None:
    try:
        folder = paths.build_dir()
    except OplabError as error:
        _warn(f"Progress is not remembered: {error.message}")
        return
    progressing.record(folder, results, _warn)


def _next(course: Course, reached: progressing.Progress) -> Exercise | None:
    for exercise in course.exercises:
        if reached.entry(exercise.id).status != "passed":
            return exercise
    return None


def _suggest(course: Course, results: Results, out: object) -> None:
    """Where to go on: what has just failed, else what comes behind it, else the first that is open."""
    graded = {outcome.id for outcome in results.exercises}
    failed = {outcome.id for outcome in results.exercises if not outcome.passed}
    order = course.exercises
    last = max(number for number, exercise in enumerate(order) if exercise.id in graded)
    again = next((exercise for exercise in order if exercise.id in failed), None)
    reached = progressing.load(course.root / "build")
    behind = (exercise for exercise in order[last + 1 :] if reached.entry(exercise.id).status != "passed")
    exercise = again or next(behind, None) or _next(course, reached)
    if exercise is not None:
        print(
            f"Next: {exercise.id} in exercises/{exercise.file}{_line(course, exercise)}. Help: oplab hint {exercise.id}",
            file=out,
        )


def _line(course: Course, exercise: Exercise) -> str:
    """``, line 12``: where the exercise's TODO or function stands in the learner's file."""
    try:
        text = (course.root / "exercises" / exercise.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    for mark in (f"TODO {exercise.id}", f"def {exercise.name}("):
        for number, line in enumerate(text.splitlines(), start=1):
            if mark in line:
                return f", line {number}"
    return ""


def _warn(message: str) -> None:
    print(message, file=sys.stderr)
