"""The clinic: questions from issue trackers, and whether they happen here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from oplab import paths
from oplab.cli.shared import leave, warn
from oplab.errors import OplabError

if TYPE_CHECKING:
    from oplab.clinic import Question


def clinic(
    number: Annotated[
        str | None, typer.Argument(metavar="[ISSUE]", help="pytorch#166797, or 166797; nothing for the list")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="run the case of every question in this environment")] = False,
) -> None:
    """List what users ask about exports; run one question here."""
    from oplab.clinic import PAGE, STATES, ask, find, questions, versions
    from oplab.onnxtools.quiet import quiet_exports

    root = paths.root()
    listed = questions(root)
    if number and run:
        raise OplabError("--run is for all questions.", f"Omit it: oplab clinic {number} runs that case.")
    if number is None and not run:
        _print_list(listed)
        print(f"\nStates are those of {PAGE}. oplab clinic ISSUE shows one and runs it here, --run runs all.")
        return
    quiet_exports()
    if number is not None:
        question = find(number, listed)
        print(f"{question.issue}: {question.title}\n\n{question.text}\n")
        print(f"Lesson: {question.lesson}\nCase:   {question.case}\n")
        chosen = [question]
    else:
        chosen = listed
    differing, skipped = 0, 0
    for question in chosen:
        try:
            answer = ask(question, root)
        except OplabError as error:
            if number is not None:
                raise
            skipped += 1
            print(f"{question.issue:28} not run: {error.message}", flush=True)
            continue
        words = "happens" if answer.happens else "does not happen"
        works = "the workaround works" if not answer.failure else f"the workaround fails: {answer.failure}"
        print(f"{question.issue:28} {words}, {works}", flush=True)
        if answer.failure or answer.happens != STATES[question.state]:
            differing += 1
            warn(f"{'':28} {PAGE} says “{question.state}”.")
    print(f"\nHere: {versions()}.")
    if run:
        print(f"{len(chosen) - differing - skipped} of {len(chosen)} as the page says.")
    if differing:
        leave(1)


def _print_list(listed: list[Question]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("issue", "state", "chapter"):
        table.add_column(name, no_wrap=True)
    table.add_column("question", overflow="fold")
    for question in listed:
        table.add_row(question.issue, question.state, question.chapter, question.title)
    Console(highlight=False).print(table)
