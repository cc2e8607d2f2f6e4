"""Small ONNX graphs, every value in the colour of its dtype: where a dtype changes, and where two meet that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oplab.figures.palette import BLUE, GREEN, GREY, INK, ORANGE, PAPER, PURPLE, RED

if TYPE_CHECKING:
    import onnx
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"float16": ORANGE, "float32": BLUE, "float64": RED, "int64": PURPLE, "int32": GREEN, "bool": INK}
_WIDTH, _ROW = 1.5, 0.95  # inches for a node next to another one, and for a row


def by_dtype(models: Mapping[str, onnx.ModelProto]) -> Figure:
    """Graphs side by side, from their inputs (top) to their outputs; lines and boxes have the colour of the value's dtype.

    A box has the colour of the node's output, a line that of the next node's input. A constant shows its value.

    Args:
        models: by title, each with at most some ten nodes.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    plans = {title: _plan(model) for title, model in models.items()}
    rows = max(row for places, _, _ in plans.values() for _, row in places.values()) + 1
    widths = [max(2.5, _WIDTH * _columns(places)) for places, _, _ in plans.values()]
    figure, axes = plt.subplots(
        1,
        len(plans),
        figsize=(sum(widths), _ROW * rows + 0.9),
        width_ratios=widths,
        squeeze=False,
        layout="constrained",
        dpi=100,
    )
    seen: list[str] = []
    for panel, (title, plan), width in zip(axes[0], plans.items(), widths, strict=True):
        panel.set_title(title, color=INK, size=11)
        panel.set_axis_off()
        panel.set_xlim(-width / 2 / _WIDTH, width / 2 / _WIDTH)
        panel.set_ylim(-rows + 0.4, 0.6)
        seen += _draw(panel, *plan)
    used = [name for name in COLOURS if name in seen] + (["other"] if set(seen) - set(COLOURS) else [])
    handles = [Line2D([], [], color=COLOURS.get(name, GREY), lw=3, label=name) for name in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(used), frameon=False)
    plt.close(figure)
    return figure


def _plan(model: onnx.ModelProto) -> tuple[dict[str, tuple[float, int]], dict[str, Any], list[tuple[str, str, str]]]:
    """The place of each box, its text and dtype, and the lines (from, to, dtype)."""
    import onnx
    from onnx import helper, numpy_helper

    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {
        value.name: helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
        for value in [*graph.input, *graph.value_info, *graph.output]
        if value.type.tensor_type.elem_type
    }
    boxes: dict[str, Any] = {value.name: (value.name, types[value.name], False) for value in graph.input}
    makers, lines = {value.name: value.name for value in graph.input}, []
    depth = dict.fromkeys(boxes, 0)
    for number, node in enumerate(graph.node):
        key = f"{number} {node.op_type}"
        text, constant = node.op_type, node.op_type == "Constant"
        if constant:
            array = numpy_helper.to_array(node.attribute[0].t)
            text, types[node.output[0]] = " ".join(str(array.round(4)).split()), array.dtype.name
        boxes[key] = (text, types.get(node.output[0], "other"), not constant)
        reads = [name for name in node.input if name]
        lines += [(makers[name], key, types.get(name, "other")) for name in reads]
        depth[key] = 1 + max((depth[makers[name]] for name in reads), default=-1)
        makers |= dict.fromkeys(node.output, key)
    for value in graph.output:
        boxes[f"out {value.name}"] = (value.name, types.get(value.name, "other"), False)
        lines.append((makers[value.name], f"out {value.name}", types.get(value.name, "other")))
        depth[f"out {value.name}"] = max(depth.values()) + 1
    for key in boxes:  # a constant is right above the node that reads it
        readers = [depth[end] for start, end, _ in lines if start == key]
        if depth[key] == 0 and readers:
            depth[key] = min(readers) - 1
    return _places(depth, lines), boxes, lines


def _places(depth: dict[str, int], lines: list[tuple[str, str, str]]) -> dict[str, tuple[float, int]]:
    places: dict[str, tuple[float, int]] = {}
    for row in range(
        max(depth.values()), -1, -1
    ):  # from the output up: each box is above its reader where there is space
        here = [key for key in depth if depth[key] == row]
        wish = {}
        for key in here:
            below = [places[end][0] for start, end, _ in lines if start == key and end in places]
            wish[key] = sum(below) / len(below) if below else 0.0
        here.sort(key=lambda key: wish[key])
        middle = sum(wish.values()) / len(here)
        for number, key in enumerate(here):
            places[key] = (wish[key] if len(here) == 1 else middle + number - (len(here) - 1) / 2, row)
    left, right = min(x for x, _ in places.values()), max(x for x, _ in places.values())
    return {key: (x - (left + right) / 2, row) for key, (x, row) in places.items()}


def _columns(places: dict[str, tuple[float, int]]) -> float:
    return max(x for x, _ in places.values()) - min(x for x, _ in places.values()) + 1


def _draw(
    panel: Axes, places: dict[str, tuple[float, int]], boxes: dict[str, Any], lines: list[tuple[str, str, str]]
) -> list[str]:
    for start, end, dtype in lines:
        (x0, row0), (x1, row1) = places[start], places[end]
        arrow = {"arrowstyle": "-|>", "color": COLOURS.get(dtype, GREY), "lw": 2.6, "shrinkA": 12, "shrinkB": 13}
        panel.annotate("", (x1, -row1), (x0, -row0), arrowprops=arrow)
    for key, (text, dtype, is_node) in boxes.items():
        x, row = places[key]
        colour = COLOURS.get(dtype, GREY)
        style = {"boxstyle": "round,pad=0.42", "fc": PAPER, "ec": colour, "lw": 3.6 if is_node else 1.4}
        weight = "bold" if is_node else "normal"
        panel.text(x, -row, text, ha="center", va="center", size=10, color=INK, weight=weight, bbox=style)
    return [dtype for _, dtype, _ in boxes.values()]
