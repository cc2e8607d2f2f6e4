"""What lesson 06 shows of a deformable convolution: points on an arc around a pixel, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oplab.figures.palette import BLUE, GREY, ORANGE, PURPLE

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def arc(
    height: int, width: int, centre: tuple[int, int], weights: torch.Tensor, reach: float = 0.14
) -> tuple[torch.Tensor, torch.Tensor]:
    """The offset and the mask of a 3 x 3 convolution with padding 1 whose nine points are on an arc around ``centre``.

    Args:
        centre: row and column.
        weights: of the nine points, with the sum 1; where points are outside the image, the mask makes up for theirs.
        reach: the angle from the middle of the arc to its ends.

    Returns:
        The offset (1, 18, height, width), rows before columns, and the mask (1, 9, height, width), 0 outside the image.
    """
    import torch

    rows, columns = torch.meshgrid(torch.arange(float(height)), torch.arange(float(width)), indexing="ij")
    y, x = rows - centre[0], columns - centre[1]
    offset, inside = [], []
    for k, angle in enumerate(torch.linspace(-reach, reach, 9)):
        row = centre[0] + y * torch.cos(angle) + x * torch.sin(angle)
        column = centre[1] + x * torch.cos(angle) - y * torch.sin(angle)
        offset += [row - (rows + k // 3 - 1), column - (columns + k % 3 - 1)]
        inside.append((row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1))
    counts = torch.stack(inside).float()
    return torch.stack(offset)[None], (counts / (weights[:, None, None] * counts).sum(0))[None]


def picture(
    image: np.ndarray, result: np.ndarray, offset: torch.Tensor, mask: torch.Tensor, centre: tuple[int, int]
) -> Figure:
    """Where the points of each kernel are moved to, in the whole image and in a part of it, and the result.

    Args:
        image, result: (H, W, 3), values from 0 to 1 or 0 to 255.
        offset, mask, centre: as for :func:`arc`, for an image of at least 160 columns and 68 rows.
    """
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.5), width_ratios=[3, 2, 3], layout="constrained")
    left.imshow(image, alpha=0.6)
    for row in range(20, image.shape[0], 40):
        for column in range(12, image.shape[1], 46):
            _arrows(left, offset, mask, row, column, 0.004)
    left.add_patch(plt.Rectangle((141, 53), 18, 14, fill=False, ec=PURPLE, lw=2))
    left.plot(*centre[::-1], "o", color=PURPLE, ms=6)
    left.set_title("nine arrows at each of 35 pixels", fontsize=11)
    middle.imshow(image, alpha=0.5)
    starts, ends = _arrows(middle, offset, mask, 60, 150, 0.008)
    middle.plot(*starts.T[::-1], "s", color=GREY, ms=4)
    for k, (row, column) in enumerate(ends):
        middle.annotate(str(k), (column, row), (6, 0), textcoords="offset points", va="center", weight="bold")
    middle.set(xlim=(141, 159), ylim=(67, 53))
    middle.set_title("the frame: points 0 to 8", fontsize=11)
    right.imshow(result)
    right.set_title("the result: PyTorch's deform_conv2d", fontsize=11)
    for axes in (left, middle, right):
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def _arrows(
    axes: Axes, offset: torch.Tensor, mask: torch.Tensor, row: int, column: int, width: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the nine points of the kernel at one output pixel: from where they were to where their offsets take them."""
    moves = offset[0, :, row, column].reshape(9, 2).numpy()
    starts = np.array([(row + k // 3 - 1, column + k % 3 - 1) for k in range(9)])
    colours = [BLUE if on else ORANGE for on in mask[0, :, row, column]]
    style = {"angles": "xy", "scale_units": "xy", "scale": 1, "headwidth": 4, "headlength": 5, "headaxislength": 4}
    axes.quiver(*starts.T[::-1], *moves.T[::-1], color=colours, width=width, **style)
    return starts, starts + moves
