"""The drawings of the lesson about sizes: photos of several sizes, and where the pixels of a resized image read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from oplab.figures.palette import BLUE, GREY, ORANGE, PURPLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = (("o", BLUE), ("s", ORANGE), ("D", PURPLE), ("^", GREY))


def photos(images: Mapping[str, np.ndarray], equal: bool = False) -> Figure:
    """Photos side by side, not smoothed, each with its title and its height × width in pixels.

    Args:
        images: by title, each float (H, W, 3) in [0, 1].
        equal: draw all at one size instead of each at a size in proportion to its pixels.
    """
    import matplotlib.pyplot as plt

    widths = [1.0 if equal else image.shape[1] for image in images.values()]
    each = [width / sum(widths) * 11 for width in widths]  # inches
    tall = max(inch * image.shape[0] / image.shape[1] for inch, image in zip(each, images.values(), strict=True))
    figure, grid = plt.subplots(
        1, len(images), figsize=(11, tall + 0.6), width_ratios=widths, layout="constrained", squeeze=False
    )
    for axes, (title, image) in zip(grid[0], images.items(), strict=True):
        axes.imshow(image, interpolation="nearest")
        axes.set_title(f"{title}\n{image.shape[0]} × {image.shape[1]}", size=10)
        axes.set_anchor("S")
        axes.axis("off")
    return figure


def reading_places(places: Mapping[str, Sequence[float]], pixels: int) -> Figure:
    """A row for each mode: the old pixels as squares, and a mark where each new pixel reads.

    Args:
        places: by mode, the positions in pixels; 0 is the centre of the first pixel.
        pixels: how many old pixels there are.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    figure, axes = plt.subplots(figsize=(9, 0.7 * len(places) + 0.8), layout="constrained")
    for row, (found, (marker, colour)) in enumerate(zip(places.values(), _MARKS, strict=False)):
        for pixel in range(pixels):
            axes.add_patch(Rectangle((pixel - 0.5, row - 0.3), 1, 0.6, fill=False, edgecolor=GREY))
        axes.scatter(found, [row] * len(found), color=colour, marker=marker, s=42, zorder=3)
    axes.set_yticks(range(len(places)), places)
    axes.set_xticks(range(pixels), [f"pixel {pixel}" for pixel in range(pixels)])
    axes.set(xlim=(-0.6, pixels - 0.4), ylim=(len(places) - 0.5, -0.5))
    axes.set_xlabel("where a new pixel reads (beyond the outer centres: the value at the edge)")
    axes.tick_params(length=0)
    axes.set_frame_on(False)
    return figure
