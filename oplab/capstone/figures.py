"""Figures for a page: drawn without a window, and kept as text in the page."""

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
    """A figure that no window and no notebook shows by itself."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(rows, columns, squeeze=False, subplot_kw={"projection": projection} if projection else None)
    return made, list(axes.flat)


def image(drawn: Figure, words: str) -> str:
    stream = io.BytesIO()
    drawn.savefig(stream, format="png", dpi=110)
    return (
        f'<img alt="{html.escape(words)}" src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}">'
    )
