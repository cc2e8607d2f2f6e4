"""Who calls whom, from top to bottom: the drawing of a protocol between a few programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oplab.figures.palette import GREY, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sequence(
    places: Sequence[str],
    phases: Mapping[str, Sequence[tuple[int, int, str]]],
    lives: Sequence[tuple[int, int, int, str, str]] = (),
) -> Figure:
    """A column for each place, and below the titles one arrow in each row.

    Args:
        places: the titles of the columns.
        phases: by title, the arrows of a phase: (from, to, text), with the indices of two neighbouring places. Rows are counted
            over all phases.
        lives: (place, first row, last row, text, colour) of each bar, which shows how long an object lives. A second bar of a
            place is drawn to the right of the first.
    """
    import matplotlib.pyplot as plt

    step, rows = 3.6, sum(len(arrows) for arrows in phases.values())
    figure, axes = plt.subplots(figsize=(10.5, 0.42 * rows + 0.6), layout="constrained")
    for number, title in enumerate(places):
        axes.plot([number * step] * 2, [-0.4, rows - 0.4], color=GREY, lw=1, zorder=0)
        axes.text(number * step, -0.75, title, ha="center", weight="bold", size=12)
    row = 0
    for title, arrows in phases.items():
        if row:
            axes.axhline(row - 0.6, color=GREY, lw=0.8, ls=":", zorder=-1)
        axes.text(-1.9, row + (len(arrows) - 1) / 2, title, va="center", size=11)
        for start, end, text in arrows:
            left, right = min(start, end) * step, max(start, end) * step
            tip, tail = (right - 0.09, left + 0.09) if end > start else (left + 0.09, right - 0.09)
            style = {"arrowstyle": "-|>,head_width=0.22,head_length=0.45", "color": INK, "lw": 1.2}
            axes.annotate("", (tip, row), (tail, row), arrowprops=style)
            axes.text((left + right) / 2, row - 0.1, text, ha="center", va="bottom", size=9.5)
            row += 1
    drawn: dict[int, int] = {}
    for place, first, last, text, colour in lives:
        x = place * step + 0.42 * drawn.get(place, 0)
        drawn[place] = drawn.get(place, 0) + 1
        axes.plot([x, x], [first, last], color=colour, lw=8, alpha=0.8, solid_capstyle="butt", zorder=1)
        inner = place < len(places) - 1
        axes.text(
            x + (-0.14 if inner else 0.14),
            (first + last) / 2 + 0.4,
            text,
            rotation=90,
            va="center",
            ha="right" if inner else "left",
            size=10,
        )
    axes.set(xlim=(-2, (len(places) - 1) * step + 1.1), ylim=(rows - 0.3, -1.3))
    axes.set_axis_off()
    plt.close(figure)
    return figure
