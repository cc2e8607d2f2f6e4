"""The drawing of chapter 17: which file loads which other file, and by which name it finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oplab.figures.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# title, second line, colour, left, bottom, width
_BOXES = {
    "torch": ("PyTorch's package", "libtorch_cpu.so", BLUE, 0.1, 3.0, 2.9),
    "torch_op": ("my_add_torch.so", "your wheel", ORANGE, 5.0, 3.0, 2.6),
    "ort_op": ("my_add_ort.so", "your wheel", ORANGE, 5.0, 1.0, 2.6),
    "ort": ("ONNX Runtime's package", "libonnxruntime.so", PURPLE, 0.1, 1.0, 2.9),
    "system": ("the system", "libstdc++.so.6, libc.so.6", GREY, 10.0, 2.0, 2.7),
    "model": ("model.onnx", "domain, operator, version", GREEN, 10.0, 0.0, 2.7),
}
_HEIGHT = 0.95


def loading() -> Figure:
    """Who loads what from where: two packages, the two libraries of a wheel, the system and a model."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    figure = plt.figure(figsize=(12.8, 4.3), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))  # one unit is one inch, so that text keeps its size in a box
    axes.set(xlim=(0, 12.8), ylim=(-0.15, 4.15))
    axes.set_axis_off()
    for title, text, colour, x, y, width in _BOXES.values():
        style = "round,pad=0,rounding_size=0.12"
        patch = FancyBboxPatch((x, y), width, _HEIGHT, boxstyle=style, fc=to_rgba(colour, 0.14), ec=colour, lw=2)
        axes.add_patch(patch)
        middle = {"ha": "center", "va": "center", "color": INK}
        axes.text(x + width / 2, y + 0.65, title, weight="bold", size=12, **middle)
        axes.text(x + width / 2, y + 0.27, text, size=10.5, **middle)
    _arrow(axes, (3.0, 3.7), (5.0, 3.7), "load_library(path)")
    _arrow(axes, (5.0, 3.25), (3.0, 3.25), "needs it by name", below=True)
    _arrow(axes, (3.0, 1.7), (5.0, 1.7), "RegisterCustomOps\n(options, table)")
    _arrow(axes, (5.0, 1.25), (3.0, 1.25), "calls the table", below=True)
    _arrow(axes, (7.6, 3.4), (10.0, 2.75), "needs it by name\nand symbol version", shift=0.3)
    _arrow(axes, (7.6, 1.7), (10.0, 2.3), "")
    _arrow(axes, (10.0, 0.4), (7.6, 1.2), "asks for an operator\nof a domain", below=True, shift=-0.35)
    plt.close(figure)  # else the inline backend shows it a second time
    return figure


def _arrow(
    axes: Any,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str,
    *,
    below: bool = False,
    shift: float = 0,
) -> None:
    head = {"arrowstyle": "-|>,head_width=0.25,head_length=0.5", "color": INK, "lw": 1.5, "shrinkA": 4, "shrinkB": 4}
    axes.annotate("", end, start, arrowprops=head)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + shift
    side = {"va": "top"} if below else {"va": "bottom"}
    axes.text(x, y + (-0.07 if below else 0.07), text, ha="center", color=INK, size=10, **side)
