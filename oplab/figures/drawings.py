"""The drawings that lessons share. Each function returns a matplotlib figure for ``lab.figure``.

Colours mean the same in every lesson: blue is PyTorch, orange the mapping between the two worlds, green ONNX, violet ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.figures.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAINT, VIOLET = GREY, PURPLE
_TINT = 0.14  # how much of a colour a box has inside: text keeps its contrast in a light and in a dark theme


def pipeline(
    stages: Sequence[tuple[str, str, str]],
    arrows: Sequence[str],
    links: Sequence[tuple[float, str, str, str]] = (),
) -> Figure:
    """Boxes from left to right, an arrow with a label between two, and below them what hangs on a box or on an arrow.

    Args:
        stages: (title, second line, colour) of each box.
        arrows: the label of each arrow, one less than there are stages.
        links: (place, title, text, colour). Place 0 is below the first box, 0.5 below the first arrow, 1 below the second box.
    """
    step, width, height = 4.7, 3.3, 1.1
    span = step * (len(stages) - 1) + width
    figure, axes = _canvas(span + 0.4, 3.25 if links else 1.4)
    top = 1.95 if links else 0.1
    for number, (title, text, colour) in enumerate(stages):
        _box(axes, number * step, top, width, height, title, text, colour, big=True)
    for number, label in enumerate(arrows):
        left, right = number * step + width, (number + 1) * step
        axes.annotate(
            "",
            (right - 0.08, top + height / 2),
            (left + 0.08, top + height / 2),
            arrowprops={"arrowstyle": "-|>,head_width=0.28,head_length=0.5", "color": INK, "lw": 2},
        )
        axes.text((left + right) / 2, top + height / 2 + 0.14, label, ha="center", va="bottom", color=INK, size=10.5)
    for place, title, text, colour in links:
        x = place * step
        axes.plot(
            [x + width / 2] * 2,
            [1.2, top + (0 if place == int(place) else height / 2 - 0.1)],
            ":",
            color=colour,
            lw=1.8,
        )
        _box(axes, x + 0.6, 0, width - 1.2, 1.2, title, text, colour, big=False)
    axes.set_xlim(-0.2, span + 0.2)
    axes.set_ylim(-0.1, top + height + 0.1)
    return figure


def zoom(photos: Mapping[str, np.ndarray], top: int, left: int, size: int) -> Figure:
    """Photos side by side, and below each the same small window, enlarged without smoothing.

    Args:
        photos: by title, each float (H, W, 3) in [0, 1], all of one size.
        top, left, size: the square window, in pixels.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    height, width = next(iter(photos.values())).shape[:2]
    each = 2.75
    figure, grid = plt.subplots(
        2,
        len(photos),
        figsize=(each * len(photos), each * (height / width + 1) + 0.45),
        height_ratios=[height / width, 1],
        layout="constrained",
        dpi=100,
        squeeze=False,
    )
    for (title, image), (upper, lower) in zip(photos.items(), grid.T, strict=True):
        upper.imshow(image, interpolation="lanczos")
        upper.add_patch(Rectangle((left, top), size, size, fill=False, edgecolor="white", lw=3))
        upper.add_patch(Rectangle((left, top), size, size, fill=False, edgecolor=RED, lw=1.6))
        upper.set_title(title, color=INK, size=11)
        lower.imshow(image[top : top + size, left : left + size], interpolation="nearest")
        for axes, colour in ((upper, None), (lower, RED)):
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_visible(colour is not None)
                spine.set_color(colour)
                spine.set_linewidth(1.6)
    plt.close(figure)
    return figure


def errors(gaps: Mapping[str, np.ndarray], tolerance: float) -> Figure:
    """Histograms of absolute differences on one logarithmic axis, and the tolerance as a line.

    Args:
        gaps: absolute differences by name, any shape. The share that is exactly 0 is in the legend.
        tolerance: the largest difference that is allowed.
    """
    import matplotlib.pyplot as plt

    flat = {name: np.asarray(gap, np.float64).ravel() for name, gap in gaps.items()}
    positive = np.concatenate([gap[gap > 0] for gap in flat.values()] + [np.array([tolerance])])
    low = max(np.floor(np.log10(positive.min())), -11)  # a few tiny ones would push the rest aside
    high = np.ceil(np.log10(positive.max() * 1.2))
    edges = np.logspace(low, high, int((high - low) * 10) + 1)
    figure, axes = plt.subplots(figsize=(10, 3.4), layout="constrained", dpi=100)
    for (name, gap), colour in zip(flat.items(), (BLUE, ORANGE, GREEN, PURPLE), strict=False):
        differ = np.maximum(gap[gap > 0], edges[0])
        label = f"{name} ({100 * float((gap == 0).mean()):.0f} % of the values are equal to the last bit)"
        weights = np.full(differ.size, 100 / gap.size)
        shares, _ = np.histogram(differ, edges, weights=weights)
        axes.stairs(shares, edges, color=colour, lw=2, label=label)
    axes.axvline(tolerance, color=INK, lw=1.6, ls="--")
    axes.text(
        tolerance * 1.15,
        0.97,
        f"tolerance {tolerance:.0e}",
        transform=axes.get_xaxis_transform(),
        va="top",
        color=INK,
        size=10,
    )
    axes.set_xscale("log")
    axes.set_xlabel("absolute difference between ONNX Runtime and PyTorch, where there is one")
    axes.set_ylabel("share of the values, %")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper left", ncols=1)
    plt.close(figure)
    return figure


def _canvas(width: float, height: float) -> tuple[Figure, Any]:
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(width, height), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))  # one unit is one inch, so that text keeps its size in a box
    axes.set_axis_off()
    plt.close(figure)  # else the inline backend shows it a second time
    return figure, axes


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, title: str, text: str, colour: str, *, big: bool
) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.14"
    face = to_rgba(colour, _TINT) if big else "none"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=face, ec=colour, lw=2.2 if big else 1.5))
    axes.text(
        x + width / 2,
        y + height - (0.4 if big else 0.32),
        title,
        ha="center",
        va="center",
        weight="bold",
        color=INK,
        size=13 if big else 11,
    )
    axes.text(
        x + width / 2, y + (0.36 if big else 0.44), text, ha="center", va="center", color=INK, size=11.5 if big else 10
    )
