"""The values inside a torch module, compared with those inside its exported model, layer by layer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.debug.drifting import Drift, drift
from oplab.debug.matching import Coverage, align, coverage, item, some
from oplab.debug.model import Wiring, feeds, label, load
from oplab.debug.tapping import tap
from oplab.errors import OplabError, first_line
from oplab.figures.palette import BLUE, GREY, INK, ORANGE
from oplab.parity.modules import TRAINING, arguments, as_array, evaluating, returned

if TYPE_CHECKING:
    import torch

# Their results are not values of the model: a view for autograd, a literal, and memory whose content is still undefined.
_NO_VALUES = {"detach", "lift_fresh", "empty", "empty_like", "empty_strided", "new_empty"}
# ATen's name for what an ONNX operator computes, where the two differ by more than underscores and capitals.
_KINDS = {
    "convolution": ("conv", "convtranspose"),
    "native_batch_norm": ("batchnormalization", "conv"),
    "cudnn_batch_norm": ("batchnormalization", "conv"),
    "native_layer_norm": ("layernormalization",),
    "native_group_norm": ("groupnormalization",),
    "max_pool2d_with_indices": ("maxpool",),
    "avg_pool2d": ("averagepool",),
    "adaptive_avg_pool2d": ("globalaveragepool", "averagepool"),
    "mean": ("reducemean", "globalaveragepool"),
    "sum": ("reducesum",),
    "addmm": ("gemm",),
    "mm": ("matmul", "gemm"),
    "bmm": ("matmul",),
    "linear": ("gemm", "matmul"),
    "view": ("reshape", "flatten"),
    "unsafe_view": ("reshape", "flatten"),
    "permute": ("transpose",),
    "t": ("transpose",),
    "cat": ("concat",),
    "hardtanh": ("clip",),
    "clamp": ("clip",),
    "upsample_bicubic2d": ("resize",),
    "upsample_bilinear2d": ("resize",),
    "upsample_nearest2d": ("resize",),
    "index_select": ("gather",),
    "embedding": ("gather",),
}


@dataclass(frozen=True)
class LayerComparison:
    """One ONNX value, compared with the torch value that corresponds to it.

    Attributes:
        node: the ONNX node, as messages call it.
        value: the name of its output.
        layer: the torch module's name and operator: ``layer1.0.conv1 (convolution)``; for an output of the model its number, too.
        expected, got: torch's array and ONNX Runtime's; of one shape, except for an output.
        drift: the difference of the two.
    """

    node: str
    value: str
    layer: str
    expected: np.ndarray = field(repr=False)
    got: np.ndarray = field(repr=False)
    drift: Drift


@dataclass(frozen=True)
class Layers:
    """What :func:`compare_layers` found.

    Attributes:
        rows: matched values in the order of the graph. The outputs are always among them, next to what the module returned.
        coverage: how much of the graph that is, and why nodes are left out.
        unseen: torch operations without an ONNX value (folded or fused away, or lost).
        hint: about the module's mode, or "".
    """

    rows: list[LayerComparison]
    coverage: Coverage
    unseen: list[str]
    hint: str = ""

    @property
    def first_bad(self) -> LayerComparison | None:
        """The first row that is outside its tolerance."""
        return next((row for row in self.rows if row.drift.bad), None)

    def text(self) -> str:
        """A table for a terminal."""
        cells = [
            (row.layer, row.node, str(list(row.got.shape)), f"{row.drift.error:.1e}", row.drift) for row in self.rows
        ]
        widths = [max([len(cell[k]) for cell in cells], default=0) for k in range(4)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(cell[:4], widths, strict=True))
            + ("  <- drifts" if cell[4].bad else "")
            for cell in cells
        ]
        first = self.first_bad
        how = f"The first that drifts: {first.node}, {first.drift.reason}." if first else "None drifts."
        return "\n".join([*lines, f"{self.compared()[0]} {how}", *self.compared()[1:]])

    def compared(self) -> list[str]:
        """Sentences about how much was compared, and what was not and why."""
        unseen = f"Operations of the module without a node: {some(self.unseen)}."
        return [
            f"Compared: {self.coverage.text()}.",
            *self.coverage.left_out(),
            *[unseen][: len(self.unseen)],
            *filter(None, [self.hint]),
        ]

    __str__ = text

    def figure(self, title: str = "Error along the graph") -> Any:
        """The errors along the graph on a logarithmic scale, a cross where one is not allowed: a matplotlib Figure."""
        from matplotlib.figure import Figure

        errors = [max(min(row.drift.error, 1e3), 1.2e-9) for row in self.rows]
        figure = Figure(figsize=(8, 0.9 + 0.2 * min(len(errors), 60)), layout="constrained")
        axes = figure.subplots()
        places = range(len(errors))
        for bad, colour, mark in ((False, BLUE, "o"), (True, ORANGE, "X")):
            chosen = [place for place, row in enumerate(self.rows) if row.drift.bad == bad]
            axes.plot([errors[place] for place in chosen], chosen, mark, color=colour, ms=5)
        axes.set_xscale("log")
        axes.set_xlim(1e-9, max(*errors, 1e-2) * 2)
        step = max(1, -(-len(errors) // 60))
        axes.set_yticks(list(places)[::step], [row.layer for row in self.rows][::step], fontsize=8)
        axes.set_ylim(len(errors) - 0.4, -1.3)
        tolerance = max((row.drift.tolerance for row in self.rows), default=0.0)
        if tolerance > 0:
            axes.axvline(tolerance, color=GREY, linestyle="--", linewidth=1)
            axes.text(tolerance, -0.8, " allowed", va="center", fontsize=8, color=INK)
        axes.set_xlabel("largest difference / largest magnitude")
        axes.set_title(title, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        return figure


def compare_layers(
    module: torch.nn.Module,
    model: Any,
    inputs: Any,
    *,
    tolerance: float | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
) -> Layers:
    """Run a module and its exported model, and compare every pair of values inside them that correspond to each other.

    Every operator that torch calls is recorded, so functions without a module are compared too. A BatchNorm that the exporter folded
    into the convolution before it is compared as one with it. The outputs of the model are compared with what the module returns.

    Args:
        module: the module that was exported, on the CPU. It runs in eval mode, and is then as it was.
        model: a path, bytes, a ModelProto or an ONNXProgram.
        inputs: a tensor, a sequence in the graph's order, or a mapping by the graph's input names. The module gets them by
            name where its parameters have these names, else by position.
        tolerance: of the error relative to a value's largest magnitude; by dtype if left out.
        libraries: custom-op libraries in addition to the course's own.

    Raises:
        OplabError: the inputs do not fit, one of the two does not run, or they have different numbers of outputs.
    """
    import torch

    wiring = load(model, weights=False)
    given = feeds(wiring.model, inputs)
    tensors = {name: torch.from_numpy(np.array(given[name])) for name in wiring.inputs if name in given}
    folded = not any(node.op_type == "BatchNormalization" for node in wiring.nodes)
    seen = _watch(module, tensors, fold_norms=folded)
    if len(seen.outputs) != len(wiring.outputs):
        raise OplabError(
            f"The model has {len(wiring.outputs)} outputs, and the module returns {len(seen.outputs)} values.",
            "Export the module again, or give the module that the model was exported from.",
        )
    values = tap(wiring, [*wiring.makers, *wiring.outputs], libraries=libraries)(given)
    real = dict(zip(wiring.outputs, seen.outputs, strict=True))
    left = [item(name, [_plain(wiring.nodes[wiring.makers[name]].op_type)], values[name]) for name in wiring.makers]
    right = [item(call.layer, call.kinds, call.array) for call in seen.calls]
    ends = {i: None if real[name].changed else real[name].call for i, name in enumerate(wiring.makers) if name in real}
    pairs = align(left, right, ends)
    found = {left[i].name: (seen.calls[j].layer, seen.calls[j].array) for i, j in pairs}
    for number, (name, output) in enumerate(real.items()):
        layer = "" if output.call is None else f": {seen.calls[output.call].layer}"
        changed = ", changed through a view" if output.changed else ""
        found[name] = (f"output {number}{layer}{changed}", output.array)
    rows = [
        LayerComparison(_node(wiring, name), name, layer, array, values[name], drift(array, values[name], tolerance))
        for name, (layer, array) in sorted(found.items(), key=lambda entry: wiring.makers.get(entry[0], -1))
    ]
    paired = {j for _, j in pairs} | {output.call for output in seen.outputs}
    unseen = [call.layer for j, call in enumerate(seen.calls) if j not in paired]
    return Layers(rows, coverage(wiring, found, left, right), unseen, TRAINING if seen.training else "")


def _node(wiring: Wiring, name: str) -> str:
    place = wiring.makers.get(name)
    return f"{name!r} (no node)" if place is None else label(wiring.nodes[place], place)


@dataclass(frozen=True)
class _Call:
    layer: str
    kinds: tuple[str, ...]
    array: np.ndarray


@dataclass(frozen=True)
class _Output:
    array: np.ndarray
    call: int | None  # that returned the tensor
    changed: bool  # since that call, through a view of it


@dataclass(frozen=True)
class _Seen:
    calls: list[_Call]
    outputs: list[_Output]
    training: bool


def _watch(module: torch.nn.Module, tensors: dict[str, torch.Tensor], fold_norms: bool) -> _Seen:
    """A copy of every tensor that an ATen operator returns while the module runs, in order: in-place operators may change it later."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    stack: list[str] = []
    calls: list[_Call] = []
    makers: dict[int, int] = {}  # id of a tensor -> its call; the tensors are kept alive meanwhile
    alive: list[torch.Tensor] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            shown = function.overloadpacket.__name__.lstrip("_")
            name = shown.rstrip("_")
            first = result[0] if isinstance(result, (tuple, list)) and result else result
            if not isinstance(first, torch.Tensor) or name in _NO_VALUES:
                return result
            scope = stack[-1] if stack else ""
            layer = f"{scope} ({shown})" if scope else shown
            kinds = (_plain(name), *_KINDS.get(name, ()))
            call = _Call(layer, kinds, as_array(first).copy())
            source = makers.get(id(args[0])) if args and isinstance(args[0], torch.Tensor) else None
            if fold_norms and "batch_norm" in name and source is not None and "conv" in calls[source].kinds:
                calls[source] = _Call(f"{calls[source].layer} + {name}", (*calls[source].kinds, *kinds), call.array)
                makers[id(first)] = source
            else:
                makers[id(first)] = len(calls)
                calls.append(call)
            alive.append(first)
            return result

    handles = []
    for path, part in module.named_modules():
        handles.append(part.register_forward_pre_hook(lambda _m, _a, path=path: stack.append(path)))
        handles.append(part.register_forward_hook(lambda _m, _a, _r: _pop(stack), always_call=True))
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one operator for a whole transformer layer would hide its parts
    args, kwargs = arguments(module, tensors)
    try:
        with evaluating(module) as training, Watch():
            result = module(*args, **kwargs)
        outputs = []
        for leaf in returned(result):
            array, call = as_array(leaf).copy(), makers.get(id(leaf))
            changed = call is not None and calls[call].array.tobytes() != array.tobytes()
            outputs.append(_Output(array, call, changed))
    except Exception as error:
        raise OplabError(
            f"The torch module does not run on these inputs: {first_line(error)}.",
            "Call it yourself once: module(*inputs).",
        ) from None
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        for handle in handles:
            handle.remove()
    return _Seen(calls, outputs, training)


def _pop(stack: list[str]) -> None:  # a forward hook's result would replace the module's
    stack.pop()


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
