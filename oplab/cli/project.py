"""Commands about your own operator: new-operator, build and test."""

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


def new_operator(
    name: Annotated[str, typer.Argument(metavar="NAME", help="in snake_case, for example rotated_roi_align")],
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="the new folder; NAME by default")] = None,
    inputs: Annotated[
        str | None, typer.Option(metavar="NAMES", help="tensors; mask? is optional [default: x,y]")
    ] = None,
    outputs: Annotated[str | None, typer.Option(metavar="NAMES", help="tensors [default: z]")] = None,
    attributes: Annotated[
        str | None,
        typer.Option(metavar="DEFAULTS", help="name=value: 1.0, 2, [0.5, 1.5], [1, 2] or a word [default: alpha=1.0]"),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="all three: '(Tensor x, int n=2) -> Tensor', or 'x:float[N,C] at:int64[K] n=2 -> y:float[K,2*C]'",
        ),
    ] = None,
    dtypes: Annotated[str, typer.Option(metavar="NAMES", help="dtypes of the floating-point tensors")] = "float,double",
    domain: Annotated[str, typer.Option(metavar="NAME", help="domain of the ONNX operator")] = "my",
) -> None:
    """Create a complete project for your own operator."""
    from oplab.project import new
    from oplab.project import schema as schemas

    if schema is not None and (inputs, outputs, attributes) != (None, None, None):
        raise OplabError(
            "--schema replaces --inputs, --outputs and --attributes.", "Use either --schema or the other three."
        )
    made = (
        schemas.from_text(schema)
        if schema is not None
        else schemas.from_options(*schemas.with_defaults(inputs, outputs, attributes))
    )
    plan = new.Plan(name, made, domain, schemas.dtypes(dtypes))
    folder = Path(to or name)
    files = new.create(plan, folder)
    print(f"{plan.domain}::{plan.op}{made.text}\n\n{folder}/")
    groups: dict[str, list[str]] = {}
    for file in files:
        groups.setdefault(file.parent.as_posix(), []).append(file.name)
    width = max(map(len, groups)) + 1
    guide = f"{folder}/DEVELOPING.md"
    for group, names in groups.items():
        print(f"  {('' if group == '.' else group + '/').ljust(width)}  {'  '.join(names)}")
    print(
        f"\nNext:\n  {f'oplab test {folder}'.ljust(len(guide))}  build it and run its tests\n  {guide}  how to make it your operator"
    )
