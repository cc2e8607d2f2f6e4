"""The command ``oplab class similar``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oplab.cli.shared import load_course, split
from oplab.errors import OplabError


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
