"""The command that begins an operator project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oplab.errors import OplabError


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
