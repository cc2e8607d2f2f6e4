"""The page of the report: a picture, latency, parity and structure of each project, in one file."""

from __future__ import annotations

import base64
import html
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.capstone.figures import figure, image
from oplab.capstone.projects import EXPORTERS, Feeds, Project
from oplab.onnxtools.loading import load
from oplab.onnxtools.names import node_type
from oplab.onnxtools.subgraphs import every_node

if TYPE_CHECKING:
    import onnx
    from matplotlib.figure import Figure

    from oplab.parity.report import Report


def operators(model: onnx.ModelProto) -> Counter[str]:
    """How often a model uses each operator, as ``domain::Type``; subgraphs and functions are included."""
    return Counter(node_type(node) for node in every_node(model))


def section(
    project: Project, found: Mapping[str, Report], *, is_right: bool
) -> tuple[str, tuple[tuple[Figure, str], ...]]:
    """The part of the page about one project, as HTML, and its figures, each with its words.

    Args:
        is_right: no problem was found, so drawing the picture has to succeed.
    """
    from oplab.ops.sessions import session

    libraries = [project.library] if project.library else []
    sessions: dict[str, Any] = {}

    def run(exporter: str, feeds: Feeds) -> np.ndarray:
        if exporter not in sessions:
            sessions[exporter] = session(project.file(exporter), libraries=libraries)
        return sessions[exporter].run(None, dict(feeds))[0]

    parts = [f"<h2>{html.escape(project.title)}</h2>"]
    drawn = []
    if all("ort" in report.ran for report in found.values()):
        try:
            drawn.append((project.picture(run), f"What the exported model of the project {project.title} computes."))
            parts.append(image(*drawn[-1]))
            parts += [f"<p>{html.escape(fact)}</p>" for fact in project.facts(run)]
        except Exception as error:  # a wrong model may return outputs of any shape and type
            if is_right:
                raise
            parts.append(
                f"<p class=bad>No picture of these results: {type(error).__name__}: {html.escape(str(error))}</p>"
            )
    parts.append("<h3>Latency</h3>")
    drawn.append((_latency(project, found), _LATENCY))
    parts.append(image(*drawn[-1]))
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
    """A table of the inputs, outputs, versions and nodes of a file, and its graph."""
    from oplab.viewer.view import show

    path = project.file(exporter)
    model = load(path)

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
        "nodes": ", ".join(f"{count} × {name}" for name, count in sorted(operators(model).items())),
        "size": f"{path.stat().st_size / 1000:.0f} kB in one file",
    }
    table = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in rows.items())
    svg = base64.b64encode(show(model).svg.encode()).decode()
    graph = f'<img class=graph alt="the graph" src="data:image/svg+xml;base64,{svg}">'
    return f"<table>{table}</table><details><summary>The graph</summary>{graph}</details>"


_LATENCY = (
    "Milliseconds of each case on a logarithmic scale: PyTorch, and for each exporter ONNX Runtime and the C++ program."
)


def _latency(project: Project, found: Mapping[str, Report]) -> Figure:
    """Milliseconds of each case: PyTorch once, ONNX Runtime and the program for each exporter."""
    from oplab.figures.palette import BLUE, GREEN, INK, PURPLE

    series = {"PyTorch": ("torchscript", "eager", BLUE, "o")}
    for (exporter, words), colour in zip(EXPORTERS.items(), (PURPLE, GREEN), strict=True):
        series[f"ONNX Runtime, {words}"] = exporter, "ort", colour, "s"
        series[f"C++ program, {words}"] = exporter, "host", colour, "X"
    drawn, (axes,) = figure(1, 1, (10, 3.2))
    width = 0.6 / len(series)
    for number, (label, (exporter, backend, colour, mark)) in enumerate(series.items()):
        times = {row.case: row.milliseconds for row in found[exporter].rows if row.backend == backend}
        heights = [times.get(case) or np.nan for case in range(len(project.cases))]
        axes.plot(np.arange(len(heights)) + (number - 2) * width, heights, mark, ms=7, label=label, color=colour)
    axes.set_xticks(range(len(project.cases)), list(project.cases), fontsize=9, color=INK)
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds", color=INK)
    axes.legend(fontsize=8, frameon=False, ncols=5, loc="lower center", bbox_to_anchor=(0.5, 1.0), columnspacing=1.2)
    axes.spines[["top", "right"]].set_visible(False)
    return drawn


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #22303c; max-width: 1080px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; font-size: 13px; margin: .5em 0; }
th, td { border: 1px solid #c9d2da; padding: 2px 8px; text-align: left; vertical-align: top; }
img { max-width: 100%; } .faint { color: #66727d; font-size: 13px; } summary { cursor: pointer; }
.good { color: #2e8b62; } .bad { color: #c8323c; }
"""


def page(sections: Sequence[str], passed: bool, problems: Sequence[str], notes: Sequence[str]) -> str:
    """The whole page as HTML."""
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
