"""``oplab debug bisect | tap | extract``: the tools on files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oplab.errors import OplabError
from oplab.onnxtools.npz import read_npz

if TYPE_CHECKING:
    import numpy as np

app = typer.Typer(
    help="Find out why a model is wrong.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Model = Annotated[Path, typer.Argument(metavar="MODEL.onnx")]
Inputs = Annotated[
    Path,
    typer.Option("--inputs", "-i", metavar="X.npz", help="one array for each input, made by numpy.savez(F, x=...)"),
]
Library = Annotated[
    list[Path] | None, typer.Option("--library", metavar="F", help="a custom-op library beside the course's own")
]


@app.command()
def bisect(
    model: Model,
    reference: Annotated[Path, typer.Argument(metavar="REFERENCE.onnx", help="the same model while it was right")],
    inputs: Inputs,
    tolerance: Annotated[
        float | None, typer.Option(min=0.0, help="largest difference / largest magnitude; by dtype if left out")
    ] = None,
    library: Library = None,
) -> None:
    """The first node of MODEL whose result differs from REFERENCE. Exit code 0: none does, 1: there is one."""
    from oplab.debug.bisecting import bisect as search

    shown: list[Any] = []

    def show(step: Any) -> None:
        shown.append(step)
        print(step, flush=True)

    found = search(model, reference, read_npz(inputs), tolerance=tolerance, libraries=library or (), progress=show)
    print("\n".join(found.text().splitlines()[len(shown) :]))
    if found.node is not None:
        raise typer.Exit(1)


@app.command()
def tap(
    model: Model,
    inputs: Inputs,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="values or nodes; all if left out")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="F", help="write the values to an .npz")
    ] = None,
    library: Library = None,
) -> None:
    """The values inside MODEL: shape, dtype and range of each; -o keeps the arrays."""
    import numpy as np

    from oplab.debug.tapping import tap as make

    values = make(model, names or None, libraries=library or (), what=model.name)(read_npz(inputs))
    width = max((len(name) for name in values), default=0)
    for name, array in values.items():
        print(f"{name:<{width}}  {array.dtype}{list(array.shape)}  {_range(array)}")
    if output is not None:
        try:
            with open(output, "wb") as file:
                np.savez(file, **{name: array for name, array in values.items()})
        except OSError as error:
            raise OplabError(f"{output} cannot be written: {error.strerror}.", "Choose another file.") from None
        print(f"{len(values)} arrays in {output}", file=sys.stderr)


@app.command()
def extract(
    model: Model,
    output: Annotated[Path, typer.Argument(metavar="PART.onnx", help="the file to write")],
    given: Annotated[
        list[str], typer.Option("--input", metavar="NAME", help="a value that the part is given; repeat it")
    ],
    wanted: Annotated[list[str], typer.Option("--output", metavar="NAME", help="a value that it computes; repeat it")],
    library: Library = None,
) -> None:
    """The part of MODEL between some values and others, as a model of its own."""
    import onnx

    from oplab.debug.surgery import extract as cut

    part = cut(model, given, wanted, libraries=library or ())
    try:
        onnx.save(part, output)
    except OSError as error:
        raise OplabError(f"{output} cannot be written: {error.strerror}.", "Choose another file.") from None
    print(f"{output}: {len(part.graph.node)} nodes from {', '.join(given)} to {', '.join(wanted)}")


def _range(array: np.ndarray) -> str:
    import numpy as np

    if array.dtype.kind not in "biuf" or not array.size:
        return "empty" if not array.size else str(array.reshape(-1)[0])
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    odd = f", {wide.size - finite.size} not finite" if finite.size < wide.size else ""
    return (
        f"{finite.min():.4g} … {finite.max():.4g}, mean {finite.mean():.4g}{odd}"
        if finite.size
        else f"none finite of {wide.size}"
    )
