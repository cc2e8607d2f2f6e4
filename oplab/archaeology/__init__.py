"""What old texts on export teach, compared with what PyTorch 2.15 and ONNX Runtime 1.31 do: the table of chapter 09.

``table.toml`` holds the words, one entry for each API or snippet of the texts. ``probes/`` holds the proofs: for each
entry a function that shows today's behaviour, and one that shows that the replacement works. A test runs all of them.

Statements about versions that are not installed come from the release history (release notes and pull requests). Only
the last column of the timeline is executed.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
STATUSES = {
    "works": "runs as it is printed",
    "changed": "still there, and does something else",
    "renamed": "lives under another name",
    "gone": "removed",
    "broken": "never ran as it is printed",
}
TORCH = [f"1.{minor}" for minor in range(5, 14)] + [f"2.{minor}" for minor in range(16)]
ORT = [f"1.{minor}" for minor in range(11, 32)]


@dataclass(frozen=True)
class Entry:
    """One API or snippet of an old text.

    Attributes:
        id: name of the entry, and of its probes.
        api: how the text spells it.
        says: what the text says about it.
        status: a key of :data:`STATUSES`.
        today: what happens today, in words.
        use: what to write today; empty where the old form is right.
        chapter: where the course teaches it.
        axis: ``torch`` or ``ort``: whose versions ``worked`` and ``since`` are.
        worked: ``(first, last)`` version in which the old form worked, by release history; an empty first version is older
            than the timeline. None: the entry is not in the timeline.
        since: first version that has the replacement, by release history; empty: older than the timeline. None: there is no
            replacement.
    """

    id: str
    api: str
    says: str
    status: str
    today: str
    use: str
    chapter: str
    axis: str = "torch"
    worked: tuple[str, str] | None = None
    since: str | None = None

    @property
    def old(self) -> Callable[[], str]:
        """The probe of the status: it returns what it saw, in a few words."""
        from oplab.archaeology import probes

        return probes.OLD[self.id]

    @property
    def new(self) -> Callable[[], str] | None:
        """The probe of the replacement, or None where the old form is right."""
        from oplab.archaeology import probes

        return probes.NEW.get(self.id)


@cache
def rows() -> tuple[Entry, ...]:
    """The whole table, in a learner's order: register, write, export, look up, run, compile."""
    entries = tomllib.loads((HERE / "table.toml").read_text(encoding="utf-8"))["row"]
    return tuple(_entry(**entry) for entry in entries)


def _entry(*, worked: str | None = None, **words: str) -> Entry:
    span = None
    if worked is not None:
        first, _, last = worked.partition("-")
        span = (first, last)
    return Entry(worked=span, **{"use": "", **words})


def find(id: str) -> Entry:
    """One entry by its id."""
    for row in rows():
        if row.id == id:
            return row
    raise KeyError(f"there is no entry {id!r} in table.toml")


def markdown(chosen: Sequence[Entry]) -> str:
    """The entries as a Markdown table."""
    lines = ["| old code | today | what happens | write instead | chapter |", "|---|---|---|---|---|"]
    for row in chosen:
        cells = [
            f"`{row.api}`",
            f"**{row.status}**",
            row.today,
            row.use or "the same",
            row.chapter,
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def counts() -> dict[str, int]:
    """The number of entries of each status."""
    found = Counter(row.status for row in rows())
    return {status: found[status] for status in STATUSES}


def timeline() -> Figure:
    """The entries that have versions, as bars: until when the old form worked, and since when its replacement exists."""
    import matplotlib.pyplot as plt

    from oplab.figures.palette import BLUE, GREY, INK, ORANGE, SKY

    parts = [(axis, names, [row for row in rows() if row.worked and row.axis == axis]) for axis, names in _AXES.items()]
    heights = [len(chosen) + 1.2 for _, _, chosen in parts]
    figure, panels = plt.subplots(
        len(parts),
        1,
        figsize=(11, 0.44 * sum(heights) + 0.9),
        height_ratios=heights,
        layout="constrained",
        dpi=100,
        squeeze=False,
    )
    for (axis, names, chosen), axes in zip(parts, panels[:, 0], strict=True):
        _panel(axes, names, sorted(chosen, key=lambda row: names.index(row.worked[1])))
        title = "PyTorch" if axis == "torch" else "ONNX Runtime"
        axes.set_title(f"{title} version", loc="left", color=INK, size=11)
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=SKY, label="the old form (release history)"),
        plt.Rectangle((0, 0), 1, 1, color=GREY, label="its replacement (release history)"),
        plt.Line2D([], [], ls="", marker="s", ms=9, mfc="none", mec=BLUE, mew=1.6, label="executed here: works"),
        plt.Line2D([], [], ls="", marker="$\u22a0$", ms=11, color=ORANGE, label="executed here: does not"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, labelcolor=INK, fontsize=10)
    for axes in panels[:, 0]:
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(GREY)
    plt.close(figure)
    return figure


_AXES = {"torch": TORCH, "ort": ORT}


def _panel(axes, names: list[str], chosen: list[Entry]) -> None:
    from oplab.figures.palette import BLUE, GREY, INK, ORANGE, PAPER, SKY

    last = len(names) - 1
    for number, row in enumerate(chosen):
        first, end = row.worked
        left, right = names.index(first) if first else -0.5, names.index(end)
        left -= 0.5 if first else 0
        axes.barh(number - 0.16, right + 0.5 - left, left=left, height=0.3, color=SKY)
        if row.since is not None:
            left = names.index(row.since) - 0.5 if row.since else -0.5
            axes.barh(number + 0.18, last + 0.5 - left, left=left, height=0.22, color=GREY)
        alive = row.status == "works"
        axes.plot(last, number - 0.16, "s", ms=8, mfc=PAPER, mec=BLUE if alive else ORANGE, mew=1.6)
        if not alive:
            axes.plot(last, number - 0.16, "x", ms=5, color=ORANGE, mew=1.4)
    labels = [_short(row) for row in chosen]
    axes.set_yticks(range(len(chosen)), labels, color=INK, size=9.5, family="monospace")
    axes.set_xticks(range(len(names)), names, color=INK, size=8.5, rotation=60)
    axes.set_xlim(-0.6, last + 0.6)
    axes.set_ylim(len(chosen) - 0.4, -0.6)
    axes.tick_params(length=0)
    axes.set_axisbelow(True)
    axes.xaxis.grid(color=GREY, alpha=0.25, lw=0.8)


def _short(row: Entry, limit: int = 44) -> str:
    return row.api if len(row.api) <= limit else row.api[: limit - 1] + "…"
