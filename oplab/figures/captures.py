"""What three captures of one model recorded, drawn side by side: which steps each graph has, and which it has not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oplab.figures.palette import BLUE, GREEN, GREY, INK, ORANGE

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WAYS = ("then", "else")


def captures(models: Mapping[str, torch.jit.ScriptModule | torch.export.ExportedProgram]) -> Figure:
    """The graphs of captures of one model with one input, a column for each; boxes at the same height do the same work.

    Args:
        models: by title: traces, scripts and exported programs. The longest graph decides which rows there are; a step that
            another graph does not have has a dashed frame there.
    """
    import matplotlib.pyplot as plt

    rows = {title: list(_rows(model)) for title, model in models.items()}
    longest = max(rows.values(), key=len)
    figure, grid = plt.subplots(1, len(models), figsize=(3.5 * len(models), 4.7), layout="constrained", dpi=100)
    for axes, (title, found) in zip(grid, rows.items(), strict=True):
        axes.set(xlim=(0, 1), ylim=(len(longest) - 0.2, -1.8), xticks=[], yticks=[])
        axes.set_title(title, size=12)
        _put(axes, 0, -1, f"x, sizes {_sizes(models[title])}", GREEN)
        here = {_work(text): text for _, text in found}
        for y, (depth, text) in enumerate(longest):
            name = _work(text)
            colour = GREY if name in _WAYS else ORANGE if name == "cond" else BLUE
            if name in here:
                _put(axes, depth, y, here[name], colour)
            elif name not in _WAYS:
                _put(axes, depth, y, name, GREY, "--")
    plt.close(figure)
    return figure


def _rows(model: Any) -> Iterator[tuple[int, str]]:
    """(depth, text) of each step; the two ways of a decision are one deeper."""
    if hasattr(model, "graph_module"):
        yield from _exported(model.graph_module, 0)
    else:
        yield from _torchscript(model.graph.nodes(), 0)


def _torchscript(nodes: Any, depth: int) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if node.kind() != "prim::Constant":
            yield depth, node.kind()
        for name, block in zip(_WAYS, node.blocks(), strict=False):
            yield depth + 1, name
            yield from _torchscript(block.nodes(), depth + 1)


def _exported(module: Any, depth: int) -> Iterator[tuple[int, str]]:
    for node in module.graph.nodes:
        if node.op != "call_function" or "getitem" in str(node.target):
            continue
        yield depth, str(node.target)
        if str(node.target) == "cond":
            for name, way in zip(_WAYS, node.args[1:3], strict=True):
                yield depth + 1, name
                yield from _exported(getattr(module, way.target), depth + 1)


def _sizes(model: Any) -> str:
    """The sizes of the input as the graph knows them; each symbol is ``s``."""
    if hasattr(model, "graph_module"):
        first = next(node for node in model.graph.nodes if node.name in model.graph_signature.user_inputs)
        return str([re.sub(r"s\d+", "s", str(size)) for size in first.meta["val"].shape]).replace("'", "")
    return str(list(model.graph.inputs())[1].type().sizes())


def _work(text: str) -> str:
    """What a row does, in whatever dialect: ``aten::mul`` and ``aten.mul.Tensor`` are both ``mul``."""
    name = re.sub(r"^(aten|prim)(::|\.)", "", text).split(".")[0].lower()
    return {"if": "cond"}.get(name, name)


def _put(axes: Axes, depth: int, y: float, text: str, colour: str, style: str = "-") -> None:
    frame = {"boxstyle": "round,pad=0.35", "fc": "none", "ec": colour, "lw": 1.6, "ls": style}
    bare = text in _WAYS
    axes.text(
        0.04 + 0.14 * depth, y, text, va="center", family="monospace", size=11, color=INK, bbox=None if bare else frame
    )
