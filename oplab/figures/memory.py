"""An array in memory, as a pointer sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oplab.figures.palette import BLUE, GREY, INK, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def array(values: Sequence[float], pointer: str) -> Figure:
    """The cells of an array in a row, the pointer to the first, and what is read after the end: one cell, dashed, with a question mark."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    figure, axes = plt.subplots(figsize=(1.5 * (len(values) + 1) + 0.6, 1.9), layout="constrained")
    cells = [f"{value:g}" for value in values] + ["?"]
    for place, text in enumerate(cells):
        inside = place < len(values)
        colour = BLUE if inside else ORANGE
        axes.add_patch(
            Rectangle((place, 0), 1, 0.7, fc=to_rgba(colour, 0.14), ec=colour, lw=1.8, ls="-" if inside else "--")
        )
        axes.text(place + 0.5, 0.35, text, ha="center", va="center", size=13, color=INK)
        axes.text(
            place + 0.5, -0.2, f"{pointer}[{place}]", ha="center", va="center", size=10, color=INK, family="monospace"
        )
        axes.text(place, 0.78, f"+{4 * place} bytes", ha="left", va="bottom", size=8, color=INK)
    arrow = {"arrowstyle": "-|>", "color": GREY, "lw": 1.8}
    axes.annotate(
        pointer, (0.02, 0.98), (0.02, 1.45), ha="center", size=12, color=INK, family="monospace", arrowprops=arrow
    )
    axes.text(len(values) + 0.5, 1.25, "not in the array ✗", ha="center", size=10, color=INK)
    axes.set(xlim=(-0.3, len(cells) + 0.1), ylim=(-0.4, 1.6))
    axes.axis("off")
    return figure
