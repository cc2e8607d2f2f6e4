"""The figures of the chapters about kernels: ladders, a roofline, a search through voxels, and loops of assembly.

Each function returns a matplotlib figure; a lesson shows it with ``lab.figure``. Text has matplotlib's own colour, which a lesson
adapts to the theme.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from oplab.figures.palette import BLUE, GREY, ORANGE, PURPLE, RED, SKY

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ladder(
    seconds: Mapping[str, np.ndarray], peers: Collection[str] = (), limit: tuple[str, float] | None = None
) -> Figure:
    """A row for each kernel: a mark at its best run, from there a line to the median, on a logarithmic axis.

    Args:
        seconds: of each run, by the kernel's name, as :func:`oplab.timing.race` gives them.
        peers: the names that are not the lesson's own kernels.
        limit: what the machine can do at best: its name, and seconds.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    figure, axes = plt.subplots(figsize=(9, 0.36 * len(seconds) + 1.2), layout="constrained")
    labels = {}
    for row, (name, values) in enumerate(seconds.items()):
        best, middle = 1e3 * np.min(values), 1e3 * np.median(values)
        what, mark, colour = (
            ("another implementation", "s", GREY) if name in peers else ("this chapter's kernel", "o", BLUE)
        )
        axes.plot([best, middle], [-row, -row], color=colour, lw=2.5)
        (labels[what],) = axes.plot(best, -row, mark, color=colour, ms=9)
    if limit:
        labels[limit[0]] = axes.axvline(1e3 * limit[1], color=RED, ls="--", lw=1.8)
    axes.set_yticks(
        -np.arange(len(seconds)), [f"{name}  {_milliseconds(np.min(values))}" for name, values in seconds.items()]
    )
    axes.set_ylim(-len(seconds) + 0.4, 0.6)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("time, ms: the best run, and a line to the median (logarithmic)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(labels.values(), labels.keys(), loc="outside upper left", ncols=3, frameon=False)
    plt.close(figure)
    return figure


def roofline(
    bandwidth: float, peak: float, kernels: Mapping[str, tuple[float, float, Mapping[str, np.ndarray]]]
) -> Figure:
    """The speed of kernels below what memory and arithmetic allow, on two logarithmic axes.

    Args:
        bandwidth: of the memory, in 10⁹ bytes a second.
        peak: of the arithmetic, in 10⁹ operations a second.
        kernels: by title: operations for each byte that has to be moved, operations, and the seconds of each step's runs.
    """
    import matplotlib.pyplot as plt

    across = np.logspace(-1.2, 2.3, 100)
    figure, axes = plt.subplots(figsize=(8.6, 4.4), layout="constrained")
    axes.loglog(across, np.minimum(across * bandwidth, peak), color=RED, lw=2, label="the limit of the machine")
    axes.text(across[0] * 1.6, across[0] * 3.2 * bandwidth, "memory", rotation=30, va="bottom")
    axes.text(across[-1], peak * 1.12, "arithmetic", ha="right", va="bottom")
    slowest = peak
    for (title, (intensity, work, runs)), colour, mark in zip(kernels.items(), (ORANGE, BLUE), "os", strict=True):
        rates = {name: 1e-9 * work / np.min(values) for name, values in runs.items()}
        slowest = min(slowest, *rates.values())
        axes.plot([intensity] * len(rates), list(rates.values()), mark, color=colour, ms=8, label=title)
        height = -9.0
        for name, rate in sorted(rates.items(), key=lambda entry: entry[1]):
            height = max(float(np.log10(rate)), height + 0.24)  # labels that do not cover each other
            axes.text(intensity * 1.15, 10**height, name, va="center")
    axes.set_ylim(slowest / 2, peak * 2.5)
    axes.set_xlabel("arithmetic intensity, operations per byte")
    axes.set_ylabel("speed, 10⁹ operations per second")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    plt.close(figure)
    return figure


def shells(generator: np.random.Generator) -> Figure:
    """A search for four points among voxels, in two dimensions, where a point of the second shell is nearer than one that was found."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Circle, Rectangle

    points, query = generator.random((40, 2)) * 7, np.array([3.9, 3.3])
    apart = np.linalg.norm(points - query, axis=1)
    inside = ((points >= 2) & (points <= 5)).all(axis=1)  # in shell 0 or 1
    found = np.flatnonzero(inside)[np.argsort(apart[inside])[:4]]
    reach = float(apart[found[-1]])
    missed = points[~inside & (apart < reach)]
    assert (query + reach > 5).any() and len(missed) == 1
    figure, axes = plt.subplots(figsize=(6.6, 4.4), layout="constrained")
    for radius, strength in ((2, 0.15), (1, 0.3), (0, 0.5)):
        axes.add_patch(
            Rectangle((3 - radius, 3 - radius), 2 * radius + 1, 2 * radius + 1, color=SKY, alpha=strength, lw=0)
        )
        axes.text(3.07 - radius, 3.78 + radius, f"shell {radius}", size=9)
    axes.plot(*points.T, ".", color=GREY, ms=7, label="points")
    axes.plot(*points[found].T, "o", color=BLUE, ms=8, label="found so far")
    axes.plot(*missed.T, "D", color=ORANGE, ms=8, label="nearer, in shell 2")
    axes.plot(*query, "*", color=PURPLE, ms=15, label="the query")
    axes.add_patch(Circle((query[0], query[1]), reach, fill=False, color=BLUE, lw=1.6))
    axes.set(xticks=range(8), yticks=range(8), xlim=(0, 7), ylim=(0, 7), xticklabels=[], yticklabels=[], aspect="equal")
    axes.grid(color=GREY, lw=0.4)
    axes.tick_params(length=0)
    figure.legend(loc="outside right upper", frameon=False)
    plt.close(figure)
    return figure


def listings(loops: Mapping[str, Sequence[tuple[str, str]]]) -> Figure:
    """Columns of code, at most 22 lines each; some lines have a mark in front of them.

    Args:
        loops: lines as (mark, text) by title; a mark is ``×``, ``●`` or empty.
    """
    import matplotlib.pyplot as plt

    figure, panes = plt.subplots(1, len(loops), figsize=(10.6, 4.4), layout="constrained")
    for pane, (title, lines) in zip(panes, loops.items(), strict=True):
        pane.set_title(title, size=11, loc="left")
        shown = list(lines) if len(lines) <= 22 else [*lines[:21], ("", f"… and {len(lines) - 21} more")]
        for row, (mark, text) in enumerate(shown):
            pane.text(0, -row, mark, size=8, weight="bold")
            pane.text(0.05, -row, text, family="monospace", size=8)
        pane.set(xlim=(0, 1), ylim=(-22, 1))
        pane.axis("off")
    plt.close(figure)
    return figure


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{1e3 * seconds:.0f} ms"
