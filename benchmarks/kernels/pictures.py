"""The pictures of a run, in build/bench: ladder of versions, roofline, time over size, time over threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from oplab.figures.drawings import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET

from .harness import Result

COLOURS = (VIOLET, BLUE, ORANGE, GREEN, RED, INK)
STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 130,
}


def draw(results: Sequence[Result], limits: dict[str, float], threads: int, folder: Path) -> list[Path]:
    """Writes the pictures for which there is something to show; returns their paths."""
    made = []
    with plt.rc_context(STYLE):
        for name, picture in {"ladder": ladder, "roofline": roofline, "sizes": sizes, "threads": by_threads}.items():
            figure = picture(list(results), limits, threads)
            if figure is None:
                continue
            path = folder / f"{name}.png"
            figure.savefig(path)
            plt.close(figure)
            made.append(path)
    return made


def _grid(count: int, height: float = 3.2):
    wide = min(count, 2)
    deep = -(-count // wide)
    figure, axes = plt.subplots(deep, wide, figsize=(5.6 * wide, height * deep), squeeze=False)
    for left in axes.flat[count:]:
        left.set_axis_off()
    return figure, axes.flat


def ladder(results: list[Result], limits: dict[str, float], threads: int):
    """Our own versions, the slowest above, each as long as it takes; peers below as dashed lines."""
    shown = [each for each in results if each.threads == threads and any(peer.rung for peer in each.case.peers)]
    if not shown:
        return None
    figure, axes = _grid(len(shown), 2.9)
    for at, each in zip(axes, shown, strict=False):
        rungs = [peer.name for peer in each.case.peers if peer.rung and peer.name in each.seconds]
        names, times = [*rungs, "ours"], [1e3 * each.median(name) for name in [*rungs, "ours"]]
        at.barh(range(len(names)), times, color=[FAINT] * len(rungs) + [VIOLET], height=0.62)
        for place, took in enumerate(times):
            label = at.text(took * 1.05, place, f"{took:.3g} ms", va="center", fontsize=9, color=INK)
            label.set_bbox({"fc": "white", "ec": "none", "pad": 0.4})  # over the dashed lines
        others = [peer for peer in each.case.peers if not peer.rung and peer.name in each.seconds]
        for peer, colour in zip(others, (BLUE, ORANGE, GREEN, RED) * 2, strict=False):
            at.axvline(1e3 * each.median(peer.name), color=colour, ls="--", lw=1.3, label=peer.name)
        at.set_yticks(range(len(names)), names)
        at.invert_yaxis()
        at.set_xscale("log")
        at.set_xlim(right=max(times) * 4)
        at.set_xlabel("milliseconds")
        at.set_title(f"{each.case.kernel}, {each.case.size}")
        if others:
            at.legend(fontsize=8, loc="lower right")
    return figure


def roofline(results: list[Result], limits: dict[str, float], threads: int):
    """Operations per second over operations per byte, under what the machine can do."""
    shown = [each for each in results if each.threads == threads and each.case.flops and each.case.bytes]
    if not shown or "bandwidth" not in limits or "flops" not in limits:
        return None
    figure, at = plt.subplots(figsize=(8.6, 4.8))
    bandwidth, flops = limits["bandwidth"], limits["flops"]
    intensity = [each.case.flops / each.case.bytes for each in shown]
    low, high = min([0.05, *(value / 2 for value in intensity)]), max([200.0, *(2 * value for value in intensity)])
    ridge = flops / bandwidth
    high = max(high, 4 * ridge)
    at.plot([low, ridge, high], [low * bandwidth / 1e9, flops / 1e9, flops / 1e9], color=INK, lw=1.8)
    at.text(high, flops / 1e9 * 1.12, f"{flops / 1e9:.0f} GFLOP/s", ha="right", color=INK, fontsize=9)
    at.text(low * 1.1, low * bandwidth / 1e9 * 2.2, f"triad: {bandwidth / 1e9:.1f} GB/s", color=INK, fontsize=9)
    kernels = list(dict.fromkeys(each.case.kernel for each in shown))
    for kernel, colour in zip(kernels, COLOURS, strict=False):
        own = [each for each in shown if each.case.kernel == kernel]
        x = [each.case.flops / each.case.bytes for each in own]
        y = [each.case.flops / each.median() / 1e9 for each in own]
        at.scatter(x, y, s=46, color=colour, label=f"{kernel} ({len(own)} size{'s' if len(own) > 1 else ''})", zorder=3)
        peers = [
            (each.case.flops / each.case.bytes, each.case.flops / each.median(peer.name) / 1e9)
            for each in own
            for peer in each.case.peers
            if peer.target is not None and peer.name in each.seconds
        ]
        if peers:
            at.scatter(*zip(*peers, strict=True), s=22, facecolors="none", edgecolors=colour, zorder=2)
    at.scatter([], [], s=22, facecolors="none", edgecolors=FAINT, label="peers")
    at.set_xscale("log")
    at.set_yscale("log")
    at.set_xlabel("operations for each byte that has to be moved")
    at.set_ylabel("GFLOP/s")
    at.set_title(f"Roofline, {threads} thread{'s' if threads > 1 else ''}, float32")
    at.legend(fontsize=9, loc="lower right")
    return figure


def sizes(results: list[Result], limits: dict[str, float], threads: int):
    """Nanoseconds for each point or pixel over size: a level line grows with the size and no faster."""
    shown = [each for each in results if each.threads == threads and each.case.at]
    kernels = [kernel for kernel in dict.fromkeys(each.case.kernel for each in shown) if len(_lines(shown, kernel)) > 0]
    if not kernels:
        return None
    figure, axes = _grid(len(kernels), 3.6)
    for at, kernel in zip(axes, kernels, strict=False):
        lines = _lines(shown, kernel)
        for (series, line), colour in zip(lines.items(), COLOURS * 3, strict=False):
            _line(at, line, "ours", colour, "-o", series)
            for peer in dict.fromkeys(
                peer.name for each in line for peer in each.case.peers if peer.target is not None
            ):
                measured = [each for each in line if peer in each.seconds]
                if len(measured) > 1:
                    _line(at, measured, peer, colour, ":", f"{series}: {peer}")
        at.set_xscale("log")
        at.set_yscale("log")
        at.set_xlabel(line[0].case.unit or "size")
        at.set_ylabel("nanoseconds for each")
        at.set_title(f"{kernel}: time over size")
        at.legend(fontsize=7.5, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.2))
    return figure


def _lines(results: list[Result], kernel: str) -> dict[str, list[Result]]:
    """A kernel's cases by series, smallest first; only where a series has two sizes or more."""
    own = [each for each in results if each.case.kernel == kernel and each.case.series]
    lines = {
        series: sorted((each for each in own if each.case.series == series), key=lambda each: each.case.at)
        for series in dict.fromkeys(each.case.series for each in own)
    }
    return {series: line for series, line in lines.items() if len({each.case.at for each in line}) > 1}


def _line(at: Axes, line: list[Result], name: str, colour: str, style: str, label: str) -> None:
    x = [each.case.at for each in line]
    y = [1e9 * each.median(name) / each.case.at for each in line]
    at.plot(x, y, style, color=colour, ms=4, lw=1.6, label=label)


def _series(result: Result) -> tuple[str, str]:
    return result.case.kernel, result.case.series


def by_threads(results: list[Result], limits: dict[str, float], threads: int):
    """How many times as fast as with one thread, ours and the peers."""
    largest = {}  # of each kernel's series: a picture of all sizes has too many
    for each in results:
        if each.case.threads and each.case.series and each.case.at >= largest.get(_series(each), each).case.at:
            largest[_series(each)] = each
    lines = []
    for case in (each.case for each in largest.values()):
        own = sorted((each for each in results if each.case is case), key=lambda each: each.threads)
        if len(own) > 1 and own[0].threads == 1:
            lines.append((case, own))
    if not lines:
        return None
    figure, axes = _grid(len(lines), 3.0)
    for at, (case, own) in zip(axes, lines, strict=False):
        most = own[-1].threads
        at.plot([1, most], [1, most], color=FAINT, lw=1, ls="--")
        names = ["ours", *(peer.name for peer in case.peers if peer.target is not None)]
        for name, colour in zip(names, COLOURS, strict=False):
            points = [each for each in own if name in each.seconds]
            if len(points) > 1 and points[0].threads == 1:
                gain = [points[0].median(name) / each.median(name) for each in points]
                at.plot([each.threads for each in points], gain, "-o", color=colour, ms=4, lw=1.6, label=name)
        at.set_xticks(sorted({each.threads for each in own}))
        at.set_xlabel("threads")
        at.set_ylabel("times as fast as with one")
        at.set_title(f"{case.kernel}, {case.size}")
        at.legend(fontsize=8)
    return figure
