"""The drawings of the lessons about mappings: from a definition to a call, and which registration a registry returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oplab.figures.palette import BLUE, GREEN, ORANGE, PURPLE, SKY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LETTER = 0.0121  # the width of a letter of the call, as a share of the figure's
_CALL = 0.38  # where the call's parts begin, right of the column with the definition


def definition_and_call(start: str, parts: Mapping[str, str]) -> Figure:
    """The parts of a definition in a column, and a line from each to its place in one call above them.

    Args:
        start: the beginning of the call, for example ``'g.op("TopK",'``.
        parts: the text of each part of the definition, and what the call has for it, in this order.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 0.6 + 0.5 * len(parts)))
    axes.text(_CALL - _LETTER, 0.95, start, size=13, family="monospace", ha="right", va="center")
    x, step = _CALL, 0.85 / len(parts)
    for row, (text, code) in enumerate(parts.items()):
        y, middle = 0.95 - step * (row + 1), x + _LETTER * len(code) / 2
        axes.text(0.02, y, text, size=12, va="center")
        axes.plot([0.31, middle, middle], [y, y, 0.87], color=(BLUE, GREEN, ORANGE, PURPLE, SKY)[row % 5], lw=2)
        axes.text(x, 0.95, code, size=13, family="monospace", va="center")
        x += _LETTER * (len(code) + 1)
    axes.set(xlim=(0, 1), ylim=(0, 1.05))
    axes.axis("off")
    figure.tight_layout()
    return figure


def dispatch_table(answers: Mapping[str, Sequence[int | None]], opsets: Sequence[int], yours: Sequence[str]) -> Figure:
    """Which registration a registry returns, for each operator (row) and each opset of an export (column).

    A cell has the opset of the registration, or a dash if there is none. ▲ marks a registration from a higher opset.

    Args:
        answers: by the label of the row, one answer for each opset.
        opsets: those of the columns.
        yours: the rows of the learner's own registrations.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch, Rectangle

    figure, axes = plt.subplots(figsize=(9.5, 0.34 * len(answers) + 1.2), layout="constrained")
    kinds = {
        "PyTorch's": (SKY, 0.35),
        "yours": (BLUE, 0.45),
        "▲ from a higher opset": (ORANGE, 0.65),
    }
    for row, (label, line) in enumerate(answers.items()):
        for column, (answer, opset) in enumerate(zip(line, opsets, strict=True)):
            if answer is None:
                axes.text(column, row, "–", ha="center", va="center")
                continue
            above = answer > opset
            colour, alpha = list(kinds.values())[2 if above else 1 if label in yours else 0]
            axes.add_patch(
                Rectangle(
                    (column - 0.5, row - 0.5),
                    1,
                    1,
                    facecolor=colour,
                    alpha=alpha,
                    edgecolor="none",
                )
            )
            axes.text(column, row, f"{answer}▲" if above else answer, ha="center", va="center")
    axes.set(
        xlim=(-0.5, len(opsets) - 0.5),
        ylim=(len(answers) - 0.5, -0.5),
        xlabel="opset of the export",
    )
    axes.set_xticks(range(len(opsets)), opsets)
    axes.set_yticks(range(len(answers)), answers)
    axes.tick_params(length=0)
    axes.set_frame_on(False)
    legend = [Patch(facecolor=colour, alpha=alpha, label=name) for name, (colour, alpha) in kinds.items()]
    figure.legend(handles=legend, loc="outside upper center", ncols=3, frameon=False)
    return figure
