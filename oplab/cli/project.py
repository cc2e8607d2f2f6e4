"""Commands about your own operator: build and test."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from oplab.cli.shared import leave
from oplab.errors import OplabError


class KindOption(StrEnum):
    """What a C++ file is compiled to."""

    torch = "torch"
    ort = "ort"
    host = "host"
    cpp = "cpp"


def build(
    what: Annotated[Path, typer.Argument(metavar="FILE.cpp|DIR", help="a C++ file, or the folder of a project")],
    kind: Annotated[
        KindOption | None,
        typer.Option(
            help="a library for PyTorch or ONNX Runtime, a program, or C functions; detected from the includes by default"
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="F", help="the output file, for a single C++ file")
    ] = None,
) -> None:
    """Compile one C++ file, or a project of your own operator."""
    from oplab.project.build import build_file, build_project
    from oplab.project.layout import open_project

    def say(line: str) -> None:
        print(line, flush=True)

    if what.is_dir():
        if kind or output:
            raise OplabError("--kind and --output apply to a single C++ file, not to a project.", "Omit them.")
        build_project(open_project(what), say=say)
    else:
        build_file(what, kind.value if kind else None, output, say=say)


def test(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the folder of a project")] = Path("."),
    words: Annotated[str, typer.Option("-k", metavar="WORDS", help="only tests with these words, as pytest's -k")] = "",
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]", help="for pytest, for example: -- -x")
    ] = None,
) -> None:
    """Build a project and run its tests. Exit code 0: all passed, 1: not all, 2: they could not run."""
    from oplab.project.layout import open_project
    from oplab.project.testing import run_tests

    leave(
        run_tests(
            open_project(folder),
            [*(["-k", words] if words else []), *(arguments or ())],
            say=lambda line: print(line, flush=True),
        )
    )
