"""Commands for the authors of the course."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from oplab.cli.shared import CORES, Ids, Jobs, Seed, leave, load_course, split
from oplab.course.manifest import Course
from oplab.errors import OplabError


def new_exercise(
    id: Annotated[str, typer.Argument(metavar="ID", help="for example c05.clip; a new number creates a new chapter")],
    goal: Annotated[str, typer.Option(metavar="TEXT", help="one line that says what the code has to do")],
    title: Annotated[str, typer.Option(metavar="TEXT", help="the title of a new chapter")] = "",
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="python, symbolic (maps --operator to ONNX), cpp (C functions), ort (ONNX Runtime kernel), torch (stable-ABI "
            "operator), openvino (an extension) or host (a program)",
        ),
    ] = "python",
    operator: Annotated[
        str, typer.Option(metavar="NAME", help="what --kind symbolic maps, for example aten::gelu")
    ] = "",
    points: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="what a pass is worth")] = 2,
    difficulty: Annotated[int, typer.Option(metavar="N", min=1, max=5, help="1 is easy")] = 2,
    minutes: Annotated[int, typer.Option(metavar="N", min=1, max=600, help="how long it takes a learner")] = 10,
    deeper: Annotated[
        bool, typer.Option("--deeper", help="optional, in the last deeper section of the lesson")
    ] = False,
) -> None:
    """Begin an exercise: solution, stub, check and mutant."""
    from oplab.authoring.new import Plan, create

    course = load_course()
    plan = Plan(id, goal, title, kind, points, difficulty, minutes, operator, deeper)
    for path in create(course, plan):
        print(path.relative_to(course.root))
    print(f"\nThe parts that you write are marked WRITE:. `oplab lint-course {id}` lists what is still missing.")


def lint_course(
    ids: Ids = None,
    jobs: Jobs = CORES,
    fast: Annotated[bool, typer.Option("--fast", help="check the files only; grade nothing")] = False,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, help="grade each answer N times, on fresh inputs each time")
    ] = 1,
    answers: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="right, wrong, all or one's name; with --repeat the default is right, else all"
        ),
    ] = "",
    seed: Seed = None,
    language: Annotated[
        str, typer.Option(metavar="NAME", help="zh_CN: list only the texts that have no valid translation")
    ] = "",
) -> None:
    """Verify what the course promises about every exercise."""
    from oplab.authoring import lint

    if language:
        _translations(language)

    if seed is not None and repeat > 1:
        raise OplabError("--seed and --repeat exclude each other.", "One seed gives the same inputs each time.")
    course = load_course()
    chosen = {exercise.id for exercise in course.select(split(ids))}
    wanted = lint.KINDS.get(answers or ("right" if repeat > 1 else "all"), (answers,))
    trials = (
        [] if fast else [each for each in lint.trials(lint.only(course, chosen)) if {each.kind, each.name} & {*wanted}]
    )
    if answers in wanted and not trials and not fast:
        raise OplabError(
            f"There is no answer {answers}.", f"--answers can be {', '.join(lint.KINDS)} or a table of tests/mutants."
        )
    findings = lint.lint(course, chosen if ids else None)
    for finding in findings:
        print(finding)
    if trials:
        findings += _graded(course, trials, jobs, repeat, seed)
    times = f" {repeat} times" if repeat > 1 else ""
    looked = f"{len(chosen)} exercises, {len(lint.RULES)} rules, {len(trials)} answers graded{times}"
    print(f"{looked}: {f'{len(findings)} findings' if findings else 'all as promised'}.")
    leave(1 if findings else 0)


def author(
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="c05.clip, or c05 for a chapter")],
    notebook: Annotated[bool, typer.Option("--notebook", help="execute the chapter's notebook at the end")] = False,
    jobs: Jobs = CORES,
) -> None:
    """Make and grade exercises that you write, and say what is next."""
    from oplab.authoring import lint
    from oplab.authoring.making import make_stubs

    course = load_course()
    chosen = {exercise.id for exercise in course.select(split(ids))}
    part = lint.only(course, chosen)
    chapters = {exercise.chapter for exercise in part.exercises}
    if importlib.util.find_spec("ruff"):
        written = [*map(course.reference_file, part.exercises), *map(course.checks_file, part.exercises)]
        written += [course.root / "notebooks" / "src" / f"{stem}.py" for stem in sorted(chapters)]
        files = [path for path in written if path.suffix == ".py" and path.is_file()]
        subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", *files], cwd=course.root)
    differ, said = make_stubs(course)
    print(
        f"1. Stubs: {', '.join(differ) + ' written' if differ else 'all agree with their solutions'}.",
        *said,
        sep="\n   ",
    )
    course = load_course()  # with the minutes that were written
    part = lint.only(course, chosen)
    findings = lint.lint(course, chosen)
    print(f"2. Rules: {len(findings)} findings.", *findings, sep="\n   ")
    trials = lint.trials(part)
    wrong = _graded(course, trials, jobs, 1, None) if trials else []
    print(f"3. Answers: {len(trials)} graded, {len(wrong)} findings.")
    told = _causes(course, chosen)
    print(f"4. Causes: {told or 'each declared mistake is told'}.")
    again = f"oplab author {' '.join(ids)}"
    if findings or wrong or told:
        print(f"Next: change what is named above, then run `{again}` again.")
        leave(1)
    numbers = sorted(stem[:2] for stem in chapters)
    make = [sys.executable, course.root / "tools" / "notebooks.py", *numbers]
    if notebook:
        leave(subprocess.call(make))
    if make[1].is_file() and subprocess.run([*make, "--check"], cwd=course.root, capture_output=True).returncode:
        print(f"The answers are as promised. Next: `{again} --notebook` executes the lesson, whose notebook is older.")
        leave(1)
    print("All as promised. Next: commit it.")


def _causes(course: Course, chosen: set[str]) -> str:
    """What ``tests/grading/test_causes.py`` has found for these exercises; empty if it is nothing, or if there are no such tests."""
    tests = course.root / "tests" / "grading" / "test_causes.py"
    if not tests.is_file():
        return ""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", tests, "-k", " or ".join(sorted(chosen))]
    done = subprocess.run(command, cwd=course.root, capture_output=True, text=True)
    if done.returncode in (0, 5):  # 5: no such test
        return ""
    print(done.stdout)
    return f"not all are told; see above, or `{' '.join(map(str, command[1:]))}`"


def translate(
    language: Annotated[str, typer.Argument(metavar="NAME", help="zh_CN")],
) -> None:
    """Bring the catalogues of a language up to the English texts."""
    from oplab.authoring import translations

    for name, (count, open_) in translations.update(load_course(), language).items():
        print(f"{translations.file_of(name, language).name:10} {count:4} texts, {open_} without a valid translation")


def _translations(language: str) -> NoReturn:
    """List the texts that are shown in English, and leave: that some are is no fault."""
    from oplab.authoring import translations

    course = load_course()
    stale, broken = list(translations.stale(course, language)), list(translations.broken(course, language))
    for line in stale + broken:
        print(line)
    print(f"{len(stale)} texts without a valid translation, {len(broken)} broken ones.")
    leave(1 if broken else 0)


def _graded(course: Course, trials: Sequence[Any], jobs: int, repeat: int, seed: int | None) -> list[Any]:
    """Grade known answers, with a bar on stderr. With ``repeat``, which can take hours, findings are printed at once, else in order.

    Raises:
        KeyboardInterrupt: Ctrl-C, after what was found and a line that says how far it was.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    from oplab.authoring import lint

    total, ended = len(trials) * repeat, 0
    bad: list[lint.Finding] = []

    def done(finding: lint.Finding | None) -> None:
        nonlocal ended
        ended += 1
        if finding is not None:
            bad.append(finding)
            if repeat > 1:
                print(finding, flush=True)
            progress.update(task, description=f"grading known answers, {len(bad)} findings")
        progress.advance(task)
        if not console.is_terminal and repeat > 1 and ended % len(trials) == 0:
            print(f"{ended} of {total} runs, {len(bad)} findings", file=sys.stderr, flush=True)

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty())
    try:
        with bar as progress:
            task = progress.add_task("grading known answers", total=total)
            found = lint.run(course, trials, jobs, done, repeat, seed)
    except KeyboardInterrupt:
        for finding in bad if repeat == 1 else ():
            print(finding)
        print(f"\n{ended} of {total} runs, {len(bad)} findings.", file=sys.stderr)
        raise
    if repeat == 1:
        for finding in found:
            print(finding)
    return found
