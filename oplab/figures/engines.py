"""The picture of chapter 18: what each engine computes for the same row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from oplab.figures.palette import BLUE, GREEN, INK, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# From the largest to the smallest, so that equal values are seen as rings inside each other.
_STYLES = {
    "reference": (INK, "o", 13),
    "ONNX Runtime": (ORANGE, "s", 9),
    "OpenVINO": (BLUE, "^", 6),
    "ncnn": (GREEN, "x", 6),
}


def same_row(cases: Mapping[str, Mapping[str, np.ndarray | str]]) -> Figure:
    """One panel for each case: the values of a row by their place, one marker for each engine.

    Args:
        cases: by title, the arrays by engine. An engine that gave no array, but a text, is left out.
    """
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(cases), figsize=(9.6, 3.2), layout="constrained", dpi=100, squeeze=False)
    for panel, (title, results) in zip(panels[0], cases.items(), strict=True):
        for engine, (colour, marker, size) in _STYLES.items():
            values = results.get(engine)
            if isinstance(values, np.ndarray):
                panel.plot(np.ravel(values), marker, color=colour, ms=size, mfc="none", mew=1.5, label=engine)
        panel.set_title(title, fontsize=10, color=INK)
        panel.set_xlabel("place in the row", color=INK)
    panels[0][0].set_ylabel("value", color=INK)
    panels[0][0].legend(fontsize=9)
    plt.close(figure)  # else the inline backend shows it a second time
    return figure
