"""Figures for a page: drawn without a window, and embedded in the page as text."""

from __future__ import annotations

import base64
import html
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(
    rows: int, columns: int, size: tuple[float, float], projection: str | None = None
) -> tuple[Figure, list[Any]]:
    """A figure that neither a window nor a notebook shows by itself.

    Args:
        projection: of all axes, for example ``"3d"``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(rows, columns, squeeze=False, subplot_kw={"projection": projection} if projection else None)
    return made, list(axes.flat)


def image(drawn: Figure, words: str) -> str:
    """The figure as an HTML ``<img>`` with its data inside; ``words`` are its alternative text."""
    stream = io.BytesIO()
    drawn.savefig(stream, format="png", dpi=110)
    return (
        f'<img alt="{html.escape(words)}" src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}">'
    )


def parts() -> Figure:
    """What a project consists of: a network with an operator, two mappings, a kernel, and where each of them belongs."""
    from oplab.figures import drawings

    return drawings.pipeline(
        [
            ("PyTorch", "the network, your operator", drawings.BLUE),
            ("ONNX", "one file from each exporter", drawings.GREEN),
            ("ONNX Runtime", "Python, and a C++ program", drawings.VIOLET),
        ],
        ["export", "load"],
        [
            (0, "operator", "custom_op, fake", drawings.BLUE),
            (0.5, "two mappings", "symbolic, translation", drawings.ORANGE),
            (2, "kernel", "C++, domain lab", drawings.VIOLET),
        ],
    )
