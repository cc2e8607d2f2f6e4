"""The picture of chapter 19: error and time of one block in float32, float16 and bfloat16."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from oplab.figures.palette import BLUE, GREEN, INK, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLES = {"oplab": (BLUE, "o"), "ONNX Runtime": (ORANGE, "s"), "PyTorch": (GREEN, "^")}
_DTYPES = ("float32", "float16", "bfloat16")


def error_and_time(errors: Mapping[tuple[str, str], float], seconds: Mapping[tuple[str, str], np.ndarray]) -> Figure:
    """Two panels over the dtypes, one point for each library: the largest error, and the milliseconds of a run.

    Args:
        errors: by (library, dtype).
        seconds: by (library, dtype), the seconds of each round; a library without times has points on the left only.
    """
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.4), layout="constrained", dpi=100)
    times = {key: 1000 * float(np.median(values)) for key, values in seconds.items()}
    for panel, values, label in ((left, errors, "largest error"), (right, times, "milliseconds, one thread")):
        for step, (library, (colour, marker)) in enumerate(_STYLES.items()):
            found = [
                (place + 0.12 * (step - 1), values[library, dtype])
                for place, dtype in enumerate(_DTYPES)
                if (library, dtype) in values
            ]
            if found:
                panel.plot(*zip(*found, strict=True), marker, color=colour, ms=9, ls="none", label=library)
        panel.set_xticks(range(len(_DTYPES)), _DTYPES)
        panel.set_xlim(-0.5, len(_DTYPES) - 0.5)
        panel.set_ylabel(label, color=INK)
    left.set_yscale("log")
    right.set_ylim(bottom=0)
    left.legend()
    plt.close(figure)  # else the inline backend shows it a second time
    return figure
