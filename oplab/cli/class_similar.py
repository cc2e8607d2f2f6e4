"""The command ``oplab class similar``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oplab.cli.shared import load_course, split, warn
from oplab.errors import OplabError


def similar(
    where: Annotated[
        str,
        typer.Argument(metavar="GRADES|SUBMISSIONS", help="the folder of grades; submissions need --roster"),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="F", help="the page to write")] = Path("similarity.html"),
    exercise: Annotated[
        list[str] | None,
        typer.Option(
            "--exercises", "--exercise", metavar="ID", help="c04.asinh, or c04 for a chapter; may be repeated; else all"
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.0, max=1.0, help="the share of the smaller answer, 0.7 if not set"),
    ] = None,
    least: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="how many tokens two answers share, 30 if not set")
    ] = None,
    roster: Annotated[
        Path | None,
        typer.Option(metavar="F", help="compare submissions without grades; a CSV file with a column login"),
    ] = None,
) -> None:
    """Find answers that are alike, and write a page that shows them side by side."""
    from oplab.classes import records, similarity, similarity_page, similarity_sources

    course = load_course()
    chosen = {entry.id: entry for entry in course.select(split(exercise))}
    if roster is None:
        sources = similarity_sources.of_grades(records.load(Path(where)), chosen.values())
    else:
        sources, problems = similarity_sources.of_submissions(where, roster, chosen.values())
        for problem in problems:
            warn(problem)
    report = similarity.compare(
        sources,
        chosen,
        {id: similarity.given(course, chosen[id]) for id in sources},
        threshold=similarity.THRESHOLD if threshold is None else threshold,
        least=similarity.LEAST if least is None else least,
    )
    try:
        path = similarity_page.write(report, out.parent, out.name)
    except OSError as error:
        raise OplabError(f"{out} cannot be written: {error.strerror}.", "Name another file with -o.") from None
    print(f"{path}: {_sentence(report.answers, 'answer')}, {_sentence(len(report.pairs), 'pair')} alike.")
    if report.pairs:
        print("A pair is a reason to look at both answers, not a proof.")


def _sentence(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
