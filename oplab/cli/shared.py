"""What several commands share: their arguments and options, the course that they work on, and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from oplab import paths
from oplab.course.manifest import Course, load

# As many as there are, and two at most: a learner works on the machine meanwhile.
CORES = min(64, os.cpu_count() or 1)
FEW_CORES = min(2, CORES)

Id = Annotated[str, typer.Argument(metavar="ID", help="an exercise, for example c04.asinh or asinh")]
Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="c04.asinh or asinh, c04 for a chapter, nothing for all")
]
Jobs = Annotated[int, typer.Option(metavar="N", min=1, max=64, help="how many exercises run at the same time")]
Seed = Annotated[int | None, typer.Option(metavar="N", min=0, help="repeat the inputs of an earlier run")]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="F", help="write JUnit XML to F, for CI servers")]
Html = Annotated[Path | None, typer.Option("--html", metavar="F", help="write one self-contained page to F")]
Gradescope = Annotated[
    Path | None, typer.Option("--gradescope", metavar="F", help="write Gradescope's results.json to F")
]
Markdown = Annotated[Path | None, typer.Option("--markdown", metavar="F", help="write a table with details to F")]
Json = Annotated[Path | None, typer.Option("--json", metavar="F", help="write the results as JSON to F, - for stdout")]
Model = Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="the model")]
Libraries = Annotated[
    list[Path] | None,
    typer.Option("--library", metavar="F", help="a custom-op library in addition to the course's own; may be repeated"),
]


def load_course() -> Course:
    """The course of the current folder, or of ``OPLAB_ROOT``."""
    return load(paths.root())


def split(ids: Sequence[str] | None) -> list[str]:
    """Exercises and chapters as they were given, separated by spaces or commas."""
    return [part for id in ids or () for part in id.replace(",", " ").split()]


def warn(message: str) -> None:
    """Print a line on stderr."""
    print(message, file=sys.stderr)


def leave(code: int) -> NoReturn:
    """End the command with an exit code.

    Raises:
        typer.Exit: always.
    """
    raise typer.Exit(code)
