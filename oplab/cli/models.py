"""Commands about models: show, parity, debug, the report of chapter 16, and the clinic: questions from issue trackers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oplab import paths
from oplab.cli.shared import Json, Libraries, Model, leave, warn
from oplab.errors import OplabError

if TYPE_CHECKING:
    from oplab.clinic import Question

Inputs = Annotated[
    Path,
    typer.Option("--inputs", "-i", metavar="X.npz", help="an array for each input, made by numpy.savez(F, x=...)"),
]


def show(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL.onnx", help="one model, or two to compare")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="F", help="write .svg, .png or .html instead")
    ] = None,
) -> None:
    """Look at the graph of a model, or compare two. A browser shows it until Ctrl-C; -o writes a file."""
    if not 1 <= len(models) <= 2:
        raise OplabError(f"{len(models)} models were given; show draws one, or compares two.", "Pass one or two files.")
    from oplab.viewer.view import show as view_of

    view = view_of(*models, title=" → ".join(path.name for path in models))
    summary = view.text.splitlines()[0]
    if output is not None:
        print(f"{view.save(output)}: {summary}")
        return
    try:
        print(f"{summary}\n{view.open()}\nPress Ctrl-C to end.", flush=True)
        while True:  # short naps: a Ctrl-C that arrives as the interpreter is about to sleep does not wake it
            time.sleep(0.5)
    except KeyboardInterrupt:
        print()


def parity(
    model: Model,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            "-i",
            metavar="X.npz",
            help="an array for each input by name, or FILE.py:NAME, a function that returns them; else random ones",
        ),
    ] = None,
    dims: Annotated[
        list[str] | None,
        typer.Option("--dims", metavar="NAME=N", help="for random inputs: a dimension's size; without a name x.0=N"),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="of random inputs, and of the generator that a function gets")
    ] = 0,
    backends: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="which of eager, exported, reference, ort, host, openvino, ncnn; the first is the base"
        ),
    ] = "",
    module: Annotated[
        str, typer.Option(metavar="FILE.py:NAME", help="the PyTorch function or module, for eager and exported")
    ] = "",
    reference: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE.py:CLASS", help="an operator for onnx.reference (an OpRun); may be repeated"),
    ] = None,
    library: Libraries = None,
    rtol: Annotated[float | None, typer.Option(metavar="X", min=0, help="relative tolerance of floats")] = None,
    atol: Annotated[float | None, typer.Option(metavar="X", min=0, help="absolute tolerance of floats")] = None,
    tolerance: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=X", help="relative and absolute tolerance of one output; may be repeated"),
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="measure each backend too")] = False,
    json_file: Json = None,
) -> None:
    """Run a model in several backends and compare the outputs. Exit code 0: they agree and prove it, 1: not so, 2: a wrong call."""
    from oplab.parity import arguments
    from oplab.parity.comparison import parity as compare

    out = sys.stderr if str(json_file) == "-" else sys.stdout
    names = [name.strip() for name in backends.split(",")] if backends else None
    _has_module(names or [], module)
    report = compare(
        model,
        _inputs(model, inputs, arguments.dimensions(dims or ()), seed, out),
        names,
        module=arguments.load_module(module) if module else None,
        tolerances=arguments.tolerances(rtol, atol, tolerance or ()),
        libraries=library or (),
        reference=[arguments.load_reference(words) for words in reference or ()],
        times=times,
    )
    print(report.text(), file=out)
    text = json.dumps(report.as_dict(), indent=1) + "\n"
    if str(json_file) == "-":
        print(text, end="")
    elif json_file is not None:
        _written(json_file, lambda: json_file.write_text(text, encoding="utf-8"))
    leave(0 if report.passed else 1)


def bisect(
    model: Model,
    reference: Annotated[Path, typer.Argument(metavar="REFERENCE.onnx", help="a correct version of the same model")],
    inputs: Inputs,
    tolerance: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, help="largest difference / largest magnitude; by dtype if left out"),
    ] = None,
    library: Libraries = None,
) -> None:
    """Find the first node whose result differs from a reference. Exit code 0: no node differs, 1: there is one."""
    from oplab.debug.bisecting import bisect as search
    from oplab.onnxtools.npz import read_npz

    shown: list[Any] = []

    def progress(step: Any) -> None:
        shown.append(step)
        print(step, flush=True)

    found = search(model, reference, read_npz(inputs), tolerance=tolerance, libraries=library or (), progress=progress)
    print("\n".join(found.text().splitlines()[len(shown) :]))
    leave(1 if found.drift.bad else 0)


def tap(
    model: Model,
    inputs: Inputs,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="values or nodes; all if left out")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="F", help="write the values to an .npz")
    ] = None,
    library: Libraries = None,
) -> None:
    """Show the values inside a model: shape, dtype and range. -o keeps the arrays."""
    from oplab.debug.tapping import range_text
    from oplab.debug.tapping import tap as make
    from oplab.onnxtools.npz import read_npz

    values = make(model, names or None, libraries=library or (), what=model.name)(read_npz(inputs))
    width = max((len(name) for name in values), default=0)
    for name, array in values.items():
        print(f"{name:<{width}}  {array.dtype}{list(array.shape)}  {range_text(array)}")
    if output is not None:
        _written(output, lambda: _save_npz(output, values))
        print(f"{len(values)} arrays in {output}", file=sys.stderr)


def extract(
    model: Model,
    inputs: Annotated[
        list[str], typer.Option("--inputs", metavar="NAME", help="an input of the part; may be repeated")
    ],
    outputs: Annotated[
        list[str], typer.Option("--outputs", metavar="NAME", help="an output of the part; may be repeated")
    ],
    part: Annotated[Path, typer.Option("--output", "-o", metavar="PART.onnx", help="the file to write")],
    library: Libraries = None,
) -> None:
    """Cut out the part of a model between some of its values."""
    import onnx

    from oplab.debug.surgery import extract as cut

    made = cut(model, inputs, outputs, libraries=library or ())
    large = sum(len(tensor.raw_data) for tensor in made.graph.initializer) > 2_000_000_000  # one file holds 2 GB
    data = f"{part.name}.data"
    if large:
        (part.parent / data).unlink(missing_ok=True)  # onnx appends to it
    _written(part, lambda: onnx.save(made, part, save_as_external_data=large, location=data))
    print(f"{part}: {len(made.graph.node)} nodes from {', '.join(inputs)} to {', '.join(outputs)}")


def capstone(
    project: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="the project of your own operator, instead of your exercises")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="where reports are kept (default: build/capstone)")
    ] = None,
) -> None:
    """Write the report of chapter 16, or of your own operator. Exit code 0: all agree, 1: not so, or one is missing."""
    from oplab.capstone.answers import report
    from oplab.onnxtools.quiet import quiet_exports

    quiet_exports()
    if project is not None:
        from oplab.capstone.own import report_on
        from oplab.project.layout import open_project

        kept = report_on(open_project(project), to, say=lambda line: print(line, flush=True))
        print(f"Your report: {kept.path}")
        leave(0 if kept.passed else 1)
    print("Compiling, exporting and measuring: about half a minute.", flush=True)
    kept = report(to)
    if kept is None:
        leave(1)
    print(f"Your report: {kept.path}")
    leave(0 if kept.passed and len(kept.figures) == 2 else 1)


def _has_module(asked: list[str], module: str) -> None:
    needing = [name for name in asked if name in ("eager", "exported")]
    if needing and not module:
        raise OplabError(
            f"{' and '.join(needing)}: an .onnx file does not say which PyTorch module it was made from.",
            "Name it: --module FILE.py:NAME.",
        )


def _inputs(
    model: Path, file: Path | None, sizes: dict[str, int], seed: int, out: Any
) -> dict[str, Any] | list[dict[str, Any]]:
    """The arrays of a file by name, the cases of a function, or random ones; what was made is described on ``out``."""
    from oplab.onnxtools.inputs import input_specs, random_inputs
    from oplab.onnxtools.npz import read_npz
    from oplab.parity import arguments
    from oplab.parity.arrays import describe
    from oplab.parity.tested import ModelUnderTest

    specs = input_specs(ModelUnderTest(model).proto)
    if file is not None:
        if sizes:
            raise OplabError("--dims is only for random inputs, but --inputs is given.", "Omit one of them.")
        if not arguments.names_function(str(file)):
            return read_npz(file)
        cases = arguments.made_inputs(str(file), seed)
        for number, case in enumerate(cases):
            words = ", ".join(f"{name} {describe(array)}" for name, array in case.items())
            print(f"Inputs: {file}, --seed {seed}{f', case {number}' if len(cases) > 1 else ''}: {words}", file=out)
        return cases
    made = random_inputs(specs, seed, sizes)
    words = ", ".join(f"{name} {describe(array)}" for name, array in made.items()) or "none"
    print(f"Inputs: random, --seed {seed}: {words}", file=out)
    return made


def _save_npz(file: Path, arrays: dict[str, Any]) -> None:
    import numpy as np

    with open(file, "wb") as stream:  # savez would add .npz to a name without it
        np.savez(stream, **arrays)


def _written(file: Path, write: Callable[[], Any]) -> None:
    try:
        write()
    except OSError as error:
        raise OplabError(f"{file} cannot be written: {error.strerror}.", "Choose another file.") from None


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
