"""The report of chapter 16: what a network computes in PyTorch, ONNX Runtime and the C++ program, of what nodes, and how fast.

    python -m oplab.capstone              # your exercises: compiles your kernels, exports, compares, measures, prints where it is
    python -m oplab.capstone --to FOLDER  # the same, kept elsewhere

Each report is a folder of its own, ``build/capstone/report-001`` and so on, with one page, the models and the kernels: what would be
shipped, and the proof. No report replaces another.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import html
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab import paths
from oplab.errors import OplabError
from oplab.parity import Wrong

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from oplab.parity_report import Report

EXPORTERS = {"torchscript": "TorchScript path", "dynamo": "dynamo path"}
BACKENDS = ("eager", "ort", "host")
# The sums of a convolution or a matrix product are rounded in another order in each runtime.
TOLERANCES = {"float32": (1e-3, 1e-4)}
Feeds = Mapping[str, np.ndarray]


@dataclass
class Project:
    """A network that was delivered: the module, a file for each exporter, a kernel, and inputs to try them on.

    Attributes:
        title: what the report calls it.
        module: the PyTorch module that the files were made from, in eval mode.
        folder: where ``torchscript.onnx`` and ``dynamo.onnx`` are.
        library: the compiled kernel; None takes the course's own.
        operator: the custom operator, as ``lab::KNN``.
        cases: inputs by a name for each; none of them needs the size of the export.
        picture: draws what the network does, given ``run(exporter, feeds) -> array``.
        facts: sentences with numbers about what ONNX Runtime computes, given the same.
    """

    title: str
    module: Any
    folder: Path
    library: Path | None
    operator: str
    cases: Mapping[str, Feeds]
    picture: Callable[[Run], Figure]
    facts: Callable[[Run], list[str]] = field(default=lambda run: [])

    def file(self, exporter: str) -> Path:
        """The model of one exporter.

        Raises:
            OplabError: it was not written.
        """
        path = self.folder / f"{exporter}.onnx"
        if not path.is_file():
            raise OplabError(
                f"{self.title}: there is no {path.name}.", "Export it into the folder that your function gets."
            )
        return path


Run = Callable[[str, Feeds], np.ndarray]


@dataclass(frozen=True)
class Kept:
    """A report that was written.

    Attributes:
        path: its page.
        passed: every exporter's model agrees with PyTorch in ONNX Runtime and in the C++ program, and has the custom operator.
        parities: for each project and exporter, what :func:`oplab.parity.parity` found.
        problems: what does not agree, in sentences.
        figures: the pictures, by project.
    """

    path: Path
    passed: bool
    parities: Mapping[tuple[str, str], Report]
    problems: tuple[str, ...]
    figures: Mapping[str, tuple[Figure, ...]]

    def summary(self) -> str:
        """A line for each project and exporter, the same on every machine."""
        lines = []
        for (title, exporter), report in self.parities.items():
            ran = [name for name in BACKENDS if name in report.ran]
            lines.append(
                f"{title:18}{EXPORTERS[exporter]:18}{', '.join(ran)} on {report.cases} inputs: {report.summary()}"
            )
        return "\n".join([*lines, *self.problems])


# --- the two projects -----------------------------------------------------------------------------------------------------


def super_resolution(
    module: Any, folder: Path, library: Path | None = None, operator: str = "lab::DynamicResize"
) -> Project:
    """The project whose factor is an input: ``module(photo, factor)``, and its two files in ``folder``."""
    from oplab import photos
    from oplab.srcnn import shrink

    small = _numpy(shrink(_tensor(photos.to_nchw(photos.photo("chelsea", (120, 180)))), 3))

    def case(factor: float, photo: np.ndarray = small) -> Feeds:
        return {"photo": photo, "factor": np.array(factor, np.float32)}

    def picture(run: Run) -> Figure:
        figure, axes = _figure(1, 3, (10, 2.6))
        axes[0].imshow(np.clip(photos.to_image(small), 0, 1))
        axes[0].set_title("the input", fontsize=10)
        for place, factor in zip(axes[1:], (1.7, 3.0), strict=True):
            large = run("dynamo", case(factor))
            place.imshow(np.clip(photos.to_image(large), 0, 1))
            place.set_title(f"factor {factor:g}: {large.shape[2]} x {large.shape[3]} pixels", fontsize=10)
        for place in axes:
            place.axis("off")
        return figure

    cases = {f"factor {factor:g}": case(factor) for factor in (0.5, 1.7, 3)}
    cases["4 photos, factor 2"] = case(2, np.repeat(small[:, :, :24, :32], 4, axis=0))
    return Project("super-resolution", module, folder, library, operator, cases, picture)


def point_cloud(module: Any, folder: Path, library: Path | None = None, operator: str = "lab::KNN") -> Project:
    """The classifier: ``module(xyz, offset)``, and its two files in ``folder``."""
    from oplab.point_clouds import SOLIDS, cloud, clouds

    rng = np.random.default_rng(16)

    def case(sizes: Sequence[int]) -> tuple[Feeds, np.ndarray]:
        xyz, offset, label = clouds(sizes, rng)
        # on a lattice distances are exact, so two ways to compute them find the same neighbours
        return {"xyz": np.round(xyz * 64).astype(np.float32) / 64, "offset": offset}, label

    held_out, label = case([128] * 200)
    one_each = {"xyz": np.concatenate([cloud(name, 200, rng) for name in SOLIDS]), "offset": np.arange(200, 1601, 200)}

    def facts(run: Run) -> list[str]:
        in_torch = _numpy(module(*map(_tensor, held_out.values()))).argmax(1)
        found = [f"PyTorch calls {np.mean(in_torch == label):.1%} of {len(label)} held-out clouds by their names."]
        for exporter, words in EXPORTERS.items():
            called = run(exporter, held_out).argmax(1)
            same = "the same name for every cloud" if (called == in_torch).all() else "NOT the same names"
            found.append(f"{words}: {np.mean(called == label):.1%} in ONNX Runtime, {same}.")
        return found

    def picture(run: Run) -> Figure:
        from oplab.pictures import INK, RED

        figure, axes = _figure(2, 4, (10, 5.2), projection="3d")
        called = run("dynamo", one_each).argmax(1)
        for number, (place, name) in enumerate(zip(axes, SOLIDS, strict=True)):
            x, y, z = one_each["xyz"][200 * number : 200 * (number + 1)].T
            right = SOLIDS[called[number]] == name
            place.scatter(x, y, z, s=5, c=z, cmap="viridis")
            said = name if right else f"{name}, called {SOLIDS[called[number]]}"
            place.set_title(said, fontsize=10, color=INK if right else RED, pad=0)
            place.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
            place.axis("off")
        return figure

    cases = {}
    for name, sizes in {
        "1 cloud of 100": [100],
        "3 clouds, one of 5": [5, 300, 64],
        "8 clouds of 128": [128] * 8,
        "1 cloud of 2000": [2000],
    }.items():
        cases[name] = case(sizes)[0]
    return Project("point cloud", module, folder, library, operator, cases, picture, facts)


# --- comparing, measuring, writing -----------------------------------------------------------------------------------------


def write(projects: Sequence[Project], folder: Path | None = None, notes: Sequence[str] = ()) -> Kept:
    """Compare and measure each project, and keep the report.

    Args:
        folder: where reports are kept; ``build/capstone`` by default.
        notes: what is missing in the report, a sentence each.

    Raises:
        OplabError: there is nothing to report, a file is missing, or the folder cannot be written.
    """
    if not projects:
        raise OplabError(
            "There is nothing to report: no project is given.", "Solve c16.super_resolution or c16.point_cloud first."
        )
    parities: dict[tuple[str, str], Report] = {}
    figures: dict[str, tuple[Figure, ...]] = {}
    problems: list[str] = []
    sections = []
    for project in projects:
        found = {exporter: _compared(project, exporter) for exporter in EXPORTERS}
        problems += _problems(project, found)
        parities |= {(project.title, exporter): report for exporter, report in found.items()}
        section, drawn = _section(project, found)
        sections.append(section)
        figures[project.title] = drawn
    passed = not problems
    home = _new_folder(folder or paths.build_dir() / "capstone")
    for project in projects:
        _keep_files(project, home)
    _write(home / "report.html", _page(sections, passed, problems, notes))
    return Kept(home / "report.html", passed, parities, tuple(problems), figures)


def _compared(project: Project, exporter: str) -> Report:
    from oplab.parity import parity

    libraries = [project.library] if project.library else []
    return parity(
        project.file(exporter),
        list(project.cases.values()),
        BACKENDS,
        module=project.module,
        tolerances=TOLERANCES,
        libraries=libraries,
        times=True,
    )


def _problems(project: Project, found: Mapping[str, Report]) -> list[str]:
    problems = []
    for exporter, report in found.items():
        where = f"{project.title}, {EXPORTERS[exporter]}: "
        try:
            report.expect(*BACKENDS)
        except Wrong as error:
            problems.append(where + str(error))
        if getattr(project.module, "training", False) is True:
            problems.append(
                f"{project.title}: the returned module is in train mode. Call eval() before you export and compare."
            )
            break
        count = _operators(project.file(exporter))[project.operator]
        if count != 1:
            problems.append(f"{where}the graph has {count} nodes {project.operator}, not 1.")
    return problems


def _operators(model: Path) -> Counter[str]:
    import onnx

    from oplab.checks.graphs import ops

    return ops(onnx.load(model))


def _section(project: Project, found: Mapping[str, Report]) -> tuple[str, tuple[Figure, ...]]:
    """The part of the page about one project, and its figures."""
    import oplab

    libraries = [project.library] if project.library else []
    sessions: dict[str, Any] = {}

    def run(exporter: str, feeds: Feeds) -> np.ndarray:
        if exporter not in sessions:
            sessions[exporter] = oplab.session(project.file(exporter), libraries=libraries)
        return sessions[exporter].run(None, dict(feeds))[0]

    parts = [f"<h2>{html.escape(project.title)}</h2>"]
    drawn = []
    # What a model that does not agree draws or says is not worth the page.
    if all("ort" in report.ran for report in found.values()):
        with contextlib.suppress(Exception):
            drawn.append(project.picture(run))
            parts.append(_image(drawn[-1], project.title))
            parts += [f"<p>{html.escape(fact)}</p>" for fact in project.facts(run)]
    parts.append("<h3>Latency</h3>")
    drawn.append(_latency(project, found))
    parts.append(_image(drawn[-1], "latency"))
    parts.append("<p class=faint>Medians of 11 runs on this machine. Only ratios within one report mean anything.</p>")
    for exporter, words in EXPORTERS.items():
        parts += [f"<h3>{words}</h3>", "<h4>Parity</h4>", _cases(project), found[exporter]._repr_html_()]
        parts += ["<h4>Structure</h4>", _structure(project, exporter)]
    return "\n".join(parts), tuple(drawn)


def _cases(project: Project) -> str:
    named = [f"{number}: {name} ({_shapes(feeds)})" for number, (name, feeds) in enumerate(project.cases.items())]
    return f"<p class=faint>Cases: {html.escape('; '.join(named))}.</p>"


def _shapes(feeds: Feeds) -> str:
    return ", ".join(f"{name} {list(value.shape)}" for name, value in feeds.items())


def _structure(project: Project, exporter: str) -> str:
    """A table of what the file has, and its graph."""
    import onnx

    from oplab.viewer import show

    path = project.file(exporter)
    model = onnx.load(path)

    def ports(values: Any) -> str:
        shown = []
        for value in values:
            dims = [
                dim.dim_param or str(dim.dim_value) if dim.WhichOneof("value") else "?"
                for dim in value.type.tensor_type.shape.dim
            ]
            shown.append(f"{value.name} [{', '.join(dims)}]")
        return "; ".join(shown)

    rows = {
        "inputs": ports(model.graph.input),
        "outputs": ports(model.graph.output),
        "opsets": ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import),
        "nodes": ", ".join(f"{count} × {name}" for name, count in sorted(_operators(path).items())),
        "size": f"{path.stat().st_size / 1000:.0f} kB in one file",
    }
    table = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in rows.items())
    svg = base64.b64encode(show(model).svg.encode()).decode()
    graph = f'<img class=graph alt="the graph" src="data:image/svg+xml;base64,{svg}">'
    return f"<table>{table}</table><details><summary>The graph</summary>{graph}</details>"


def _latency(project: Project, found: Mapping[str, Report]) -> Figure:
    """Milliseconds of each case: PyTorch once, ONNX Runtime and the program for each exporter."""
    from oplab.pictures import BLUE, GREEN, INK, VIOLET

    series = {"PyTorch": ("torchscript", "eager", BLUE)}
    for (exporter, words), colours in zip(EXPORTERS.items(), ((VIOLET, "#b9a4d6"), (GREEN, "#9fd1b8")), strict=True):
        series[f"ONNX Runtime, {words}"] = exporter, "ort", colours[0]
        series[f"C++ program, {words}"] = exporter, "host", colours[1]
    figure, (axes,) = _figure(1, 1, (10, 3.2))
    width = 0.8 / len(series)
    for number, (label, (exporter, backend, colour)) in enumerate(series.items()):
        times = {row.case: row.milliseconds for row in found[exporter].rows if row.backend == backend}
        heights = [times.get(case) or np.nan for case in range(len(project.cases))]
        axes.bar(np.arange(len(heights)) + (number - 2) * width, heights, width * 0.92, label=label, color=colour)
    axes.set_xticks(range(len(project.cases)), list(project.cases), fontsize=9, color=INK)
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds", color=INK)
    axes.legend(fontsize=8, frameon=False, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0), columnspacing=1.2)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _figure(
    rows: int, columns: int, size: tuple[float, float], projection: str | None = None
) -> tuple[Figure, list[Any]]:
    """A figure that no window and no notebook shows by itself."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, subplot_kw={"projection": projection} if projection else None)
    return figure, list(axes.flat)


def _image(figure: Figure, words: str) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    return (
        f'<img alt="{html.escape(words)}" src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}">'
    )


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #22303c; max-width: 1080px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; font-size: 13px; margin: .5em 0; }
th, td { border: 1px solid #c9d2da; padding: 2px 8px; text-align: left; vertical-align: top; }
img { max-width: 100%; } .faint { color: #66727d; font-size: 13px; } summary { cursor: pointer; }
.good { color: #2e8b62; } .bad { color: #c8323c; }
"""


def _page(sections: Sequence[str], passed: bool, problems: Sequence[str], notes: Sequence[str]) -> str:
    import onnx
    import onnxruntime
    import torch

    versions = f"PyTorch {torch.__version__}, ONNX {onnx.__version__}, ONNX Runtime {onnxruntime.__version__}"
    verdict = "All agree: PyTorch, ONNX Runtime and the C++ program, over both exporters."
    head = [f"<p class={'good' if passed else 'bad'}><b>{verdict if passed else 'Not all agree.'}</b></p>"]
    head += [f"<p class=bad>{html.escape(problem)}</p>" for problem in problems]
    head += [f"<p class=bad>Not in this report: {html.escape(note)}</p>" for note in notes]
    when = f"{datetime.now():%Y-%m-%d %H:%M}"
    body = "\n".join([*head, *sections])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Capstone report</title><style>{_STYLE}</style></head>'
        f"<body><h1>From PyTorch to ONNX Runtime, with my own operators</h1><p class=faint>{when}, {versions}</p>{body}</body></html>"
    )


def _new_folder(home: Path) -> Path:
    """An empty folder with the next number. Two reports that are written at the same time get two numbers."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(p.name[7:]) for p in home.glob("report-*") if p.name[7:].isdigit()), default=0)
        while True:
            made = home / f"report-{number:03}"
            try:
                made.mkdir()
                return made
            except FileExistsError:
                number += 1
    except OSError as error:
        raise OplabError(f"{home} cannot be written: {error.strerror}.", "Make room, or give another folder.") from None


def _keep_files(project: Project, home: Path) -> None:
    folder = home / project.title.replace(" ", "-")
    folder.mkdir()
    for exporter in EXPORTERS:
        shutil.copy2(project.file(exporter), folder)
    if project.library:
        shutil.copy2(project.library, folder / f"kernel{project.library.suffix}")


def _write(path: Path, text: str) -> None:
    """In one move: a reader sees the whole page or none."""
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


# --- python -m oplab.capstone ----------------------------------------------------------------------------------------------


def yours(work: Path) -> tuple[list[Project], list[str]]:
    """The projects that are written in the track in use, and a sentence for each that is not.

    Args:
        work: a folder for the exported models.
    """
    from oplab import ops
    from oplab.edge_net import load_edge_net
    from oplab.lessons import Answers
    from oplab.srcnn import load_srcnn
    from oplab.stubs import Todo
    from oplab.toolchain.build import BuildFailed, compile_exercise

    ops.load()
    track = _answers()
    answers_file = track / "c16_capstone.py"
    answers = Answers(answers_file)
    wanted = (
        ("super_resolution", "resize_kernel", load_srcnn, super_resolution),
        ("point_cloud", "knn_kernel", lambda: load_edge_net().train(), point_cloud),
    )
    projects, missing = [], []
    for name, kernel, net, project in wanted:
        try:
            library = compile_exercise(track / "csrc" / f"c16_{kernel}.cpp", "ort")
        except BuildFailed as error:
            missing.append(f"{name}: {str(error).splitlines()[0]}")
            continue
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        function = getattr(answers, name)
        try:
            module = function(net(), folder)
        except Todo as error:
            missing.append(f"{name}: {error}")
            continue
        except Exception as error:  # whatever the learner's function raises
            missing.append(f"{name}: {_raised(error, answers_file)} `oplab check c16.{name}` says more.")
            continue
        made = project(module, folder, library)
        absent = next((f"{e}.onnx" for e in EXPORTERS if not (folder / f"{e}.onnx").is_file()), None)
        crash = None if absent else _crash(made)
        if not callable(module):
            missing.append(f"{name} returned {module!r:.60}, not the module that the two files were made from.")
        elif absent:
            missing.append(f"{name} wrote no {absent} into the folder that it got.")
        elif crash:
            missing.append(f"{name}: {crash} `oplab check c16.{kernel} --sanitize` finds the line.")
        else:
            projects.append(made)
    return projects, missing


def _raised(error: Exception, file: Path) -> str:
    """An exception in one sentence: what caused it, and where in the learner's file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    cause: BaseException = error
    while cause.__cause__ is not None:  # an exporter's exception says less than the one inside it
        cause = cause.__cause__
    words = (str(cause).strip().splitlines() or [""])[0][:300].rstrip(".")
    return f"{type(cause).__name__}: {words}{f' ({file.name}, line {lines[-1]})' if lines else ''}."


def _crash(project: Project) -> str | None:
    """Whether the kernel ends a process. Asked in the C++ program, because it would end this one, or the notebook, as well."""
    from oplab.parity import parity

    assert project.library is not None
    one = project.file(next(iter(EXPORTERS)))  # the other file has the same kernel
    for row in parity(one, list(project.cases.values()), ["host"], libraries=[project.library]).rows:
        status = re.fullmatch(r"it ended with status -(\d+)", row.reason)
        if row.verdict == "failed" and status:
            return f"your kernel crashes: the C++ program was ended by {signal.Signals(int(status[1])).name}."
    return None


def _answers() -> Path:
    """The folder of the answers in use: exercises or solutions."""
    return paths.root() / paths.track()


def report(folder: Path | None = None) -> Kept | None:
    """Compile your kernels, export your networks, compare, measure, and keep the report; None where nothing is written yet.

    Prints what is found, and a line for each project that is not written.

    Args:
        folder: where reports are kept; ``build/capstone`` by default.

    Raises:
        OplabError: there is no compiler, the file of your answers cannot be read, or the folder cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="oplab-capstone-") as work:
        projects, missing = yours(Path(work))
        for line in missing:
            print(line)
        if not projects:
            print("There is nothing to report yet.")
            return None
        kept = write(projects, folder, notes=missing)
    print(kept.summary())
    return kept


def main(argv: Sequence[str] | None = None) -> int:
    """Write the learner's report. Exit code 0: all agree, 1: they do not, or a project is not written yet, 2: it cannot be done."""
    import oplab

    parser = argparse.ArgumentParser(
        prog="python -m oplab.capstone", description="Write the report of chapter 16 about your exercises."
    )
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", help="where reports are kept (default: build/capstone); none is replaced"
    )
    arguments = parser.parse_args(argv)
    oplab.quiet_exports()
    print("Compiling, exporting and measuring: about half a minute.", flush=True)
    kept = report(arguments.to)
    if kept is None:
        return 1
    print(f"Your report: {kept.path}")
    return 0 if kept.passed and len(kept.figures) == 2 else 1


def _tensor(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array)


def _numpy(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy()


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except OplabError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit("\nStopped by Ctrl-C; earlier reports are as they were.") from None
