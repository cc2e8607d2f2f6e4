"""Checks of chapter 06: nodes that represent operators of a library, their inputs and attributes one by one, and what they compute."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import explained, no_symbolic, symbolic_causes
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx
    import torch


def by_name(function: Callable[..., torch.Tensor], names: Iterable[str]) -> Callable[..., torch.Tensor]:
    """The function, called with its inputs by name: optional ones in the middle may be missing."""
    return lambda *args: function(**dict(zip(names, args, strict=True)))


def register(c: Collect, name: str) -> None:
    """Call the learner's registration; what it added is evidence (torchvision registers its own operators)."""
    before = set(exporting.registrations())
    c.function(name)()
    c.value("registered", [entry for entry in exporting.registrations() if entry not in before])


def exported(v: Judge, title: str, name: str, opset: int) -> onnx.ModelProto:
    """The model recorded under ``title``, or why there is none.

    Args:
        name: the operator that had to be mapped, for example ``oplab::grid``.
        opset: the opset of this export.
    """
    error = v.error(title)
    forgotten = (
        error and error.type == "ValueError" and "min()" in error.message
    )  # the error after an unregistered name
    if error and (error.type == "UnsupportedOperatorError" or forgotten):
        raise not_found(v, title, name)
    if error:
        raise explained(error, title, _LETTERS, symbolic_causes())
    model = v.model(title)
    expect_replaced(model, name)
    graphs.expect_opset(model, opset)
    graphs.expect_outputs(model, ["out"])
    return model


def expect_only(v: Judge, name: str) -> None:
    """Demand that nothing else was registered: a mapping changes every export of the process."""
    others = [str(entry) for entry in v.value("registered") if not str(entry).startswith(f"{name} ")]
    if others and len(others) < len(v.value("registered")):
        raise WrongAnswer(
            f"{others[0]} is registered, too: it changes every later export in this process. Register {name} only."
        )


def expect_declared(model: onnx.ModelProto, index: int, dtype: str, sizes: Sequence[int | str | None]) -> None:
    """Demand that what the graph says of an output is not wrong: it may say less.

    Args:
        dtype: of NumPy.
        sizes: the size of each axis; None is one that no number and no axis of an input has.
    """
    import onnx

    kind, name = model.graph.output[index].type.tensor_type, model.graph.output[index].name
    wanted = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    if kind.elem_type not in (wanted, onnx.TensorProto.UNDEFINED):
        got, expected = (onnx.TensorProto.DataType.Name(entry) for entry in (kind.elem_type, wanted))
        raise WrongAnswer(f"The graph's output {name} is declared {got}, expected {expected}, as PyTorch's result is.")
    if not kind.HasField("shape"):
        return
    taken = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim} - {""}
    found = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in kind.shape.dim]
    fits = len(found) == len(sizes) and all(
        got == size if isinstance(got, int) else size is not None or got not in taken
        for got, size in zip(found, sizes, strict=False)
    )
    if not fits:
        shown = ", ".join("?" if size is None else str(size) for size in sizes)
        raise WrongAnswer(
            f"The graph declares {name} as {found}, and its sizes are [{shown}]. Without setType they stay open; x.type() is the type of "
            "x, with its sizes."
        )


def not_found(v: Judge, title: str, name: str) -> WrongAnswer:
    """Why the exporter has no symbolic function for ``name``: what the learner registered instead."""
    rule = f"The first argument is the name of the PyTorch operator, {name}."
    return no_symbolic(title, name, [str(entry) for entry in v.value("registered")], rule=rule)


def expect_replaced(model: onnx.ModelProto, name: str) -> None:
    """Demand that the PyTorch operator is no longer in the graph."""
    if name in graphs.ops(model):
        raise WrongAnswer(
            f"The graph has {name}, PyTorch's own name, as a node. A symbolic function without a return leaves the operator as it "
            "is. If you wrote that name yourself: names of operators are case-sensitive."
        )


_LETTERS = {"number of arguments": "parse_args takes one letter for each argument of the schema, g not counted."}


def expect_kind(node: onnx.NodeProto, name: str, kind: str, likely: str = "") -> None:
    """Demand an attribute of this type, ``INT`` or ``FLOATS`` for example."""
    found = nodes.attribute_types(node)
    if name not in found:
        raise WrongAnswer(f"The node {node.op_type} has no attribute {name}; it has {', '.join(found) or 'none'}.")
    if found[name] != kind:
        raise WrongAnswer(
            f"The attribute {name} of {node.op_type} has the type {found[name]}, expected {kind}.{likely}"
        )


def known_attributes(node: onnx.NodeProto, names: Sequence[str]) -> None:
    """Demand that the node has no other attribute than these."""
    foreign = sorted(entry.name for entry in node.attribute if entry.name not in names)
    if foreign:
        raise WrongAnswer(
            f"The node {node.op_type} has the attribute {foreign[0]}; the operator has {', '.join(names)}."
        )


# --- deform_conv ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deform:
    """One deformable convolution: how it is exported, and its nine parameters."""

    opset: int
    groups: int
    offset_groups: int
    mask: bool
    bias: bool
    dtype: str = "float32"
    plain: bool = False

    @property
    def title(self) -> str:
        extras = " and ".join(name for name in ("mask", "bias") if getattr(self, name))
        kind = "" if self.dtype == "float32" else f", {self.dtype}"
        kind += ", stride 2, no padding, 3 x 3" * self.plain
        return f"opset {self.opset}, {f'with {extras}' if extras else 'without mask and bias'}{kind}"

    @property
    def target(self) -> str:
        return "DeformConv" if self.opset >= 19 else "oplab::DeformConv2d"


DEFORM = [
    Deform(19, 2, 3, mask=True, bias=True),
    Deform(20, 1, 2, mask=False, bias=True),
    Deform(20, 3, 1, mask=True, bias=False),
    Deform(19, 1, 1, mask=True, bias=True, dtype="float64"),
    Deform(18, 2, 3, mask=True, bias=True),
    Deform(9, 1, 2, mask=True, bias=True, dtype="float64"),
    Deform(13, 3, 2, mask=False, bias=True),
    Deform(20, 1, 1, mask=True, bias=True, plain=True),
]
TWO_LAYERS = "two convolutions in one model"


@dataclass(frozen=True)
class Window:
    """The numbers of one convolution, height and width always different: equal ones would hide a swap."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int]

    def out(self, size: tuple[int, int]) -> tuple[int, int]:
        height, width = (
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(size, self.kernel, self.stride, self.pad, self.dilation, strict=True)
        )
        return height, width


def draw(
    rng: np.random.Generator, case: Deform, turned: Window | None = None
) -> tuple[Window, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A window, the tensors to export with, and fresh ones of other sizes to run with. Both halves draw the same.

    Args:
        turned: a window to use with height and width swapped, so that every number differs from it.
    """

    def two(low: int, high: int) -> tuple[int, int]:
        first, second = rng.choice(np.arange(low, high), size=2, replace=False)
        return int(first), int(second)

    window = Window(two(2, 5), two(1, 4), two(1, 5), two(1, 4))
    if turned:
        window = Window(turned.kernel[::-1], turned.stride[::-1], turned.pad[::-1], turned.dilation[::-1])
    if case.plain:
        window = Window((3, 3), (2, 2), (0, 0), (1, 1))
    tensors = []
    for batch, size in ((2, (15, 17)), (3, (16, 13))):
        points = case.offset_groups * window.kernel[0] * window.kernel[1]
        height, width = window.out(size)
        shapes = {
            "x": (batch, 6, *size),
            "weight": (6, 6 // case.groups, *window.kernel),
            "offset": (batch, 2 * points, height, width),
            "mask": (batch, points, height, width),
            "bias": (6,),
        }
        made = {name: rng.normal(size=shape).astype(case.dtype) for name, shape in shapes.items()}
        made["offset"] *= np.asarray(1.7, case.dtype)  # some samples fall outside the image
        made["mask"] = np.abs(made["mask"])
        tensors.append({name: value for name, value in made.items() if getattr(case, name, True)})
    return window, tensors[0], tensors[1]


def collect_deform_conv(c: Collect) -> None:
    import torch
    import torchvision

    register(c, "deform_conv")
    names = {name: {0: "n", 2: f"{name}_h", 3: f"{name}_w"} for name in ("x", "offset", "mask")}
    for number, case in enumerate(DEFORM):
        window, tensors, _ = draw(c.rng, case)

        def convolve(x, weight, offset, mask=None, bias=None, window=window):
            return torchvision.ops.deform_conv2d(
                x, offset, weight, bias, window.stride, window.pad, window.dilation, mask
            )

        path = c.scratch / f"{number}.onnx"
        inputs = {name: torch.from_numpy(value) for name, value in tensors.items()}
        axes = {name: entry for name, entry in names.items() if name in inputs}
        c.attempt(case.title, exporting.export, by_name(convolve, inputs), inputs, case.opset, path, axes=axes)
        c.file(case.title, path)

    def layers(*args):
        """Two convolutions of one image, each with its own weights, offsets, masks and numbers."""
        results = []
        for place, window in enumerate(windows):
            x, weight, offset, mask, bias = args[0], *args[1 + 4 * place : 5 + 4 * place]
            results.append(
                torchvision.ops.deform_conv2d(x, offset, weight, bias, window.stride, window.pad, window.dilation, mask)
            )
        return tuple(results)

    windows, feeds = two_layers(c.rng)
    inputs = {name: torch.from_numpy(value) for name, value in feeds.items()}
    path = c.scratch / "layers.onnx"
    c.attempt(TWO_LAYERS, exporting.export, layers, inputs, 19, path, outputs=("out", "out2"), axes={})
    c.file(TWO_LAYERS, path)


def two_layers(rng: np.random.Generator) -> tuple[list[Window], dict[str, np.ndarray]]:
    """The windows of two convolutions, and their tensors: x, and weight, offset, mask, bias of each."""
    windows, feeds = [], {}
    for place in range(2):
        window, tensors, _ = draw(rng, LAYER, windows[0] if windows else None)
        windows.append(window)
        feeds |= {
            name if name == "x" else f"{name}{place}": tensors[name]
            for name in ("x", "weight", "offset", "mask", "bias")
        }
    return windows, feeds


LAYER = Deform(19, 1, 2, mask=True, bias=True)


def judge_deform_conv(v: Judge) -> None:
    drawn = [(case, *draw(v.rng, case)) for case in DEFORM]
    windows, feeds = two_layers(v.rng)
    models: dict[str, onnx.ModelProto] = {}
    for name, wanted in (
        ("DeformConv", "DeformConv from opset 19 on"),
        ("oplab::DeformConv2d", "oplab::DeformConv2d below"),
    ):
        cases = [entry for entry in drawn if entry[0].target == name]
        with v.check(f"{wanted}, with every tensor in its place"):
            for case, _, tensors, _ in cases:
                with about(case.title):
                    models[case.title] = model = exported(v, case.title, "torchvision::deform_conv2d", case.opset)
                    expect_deform_tensors(model, case, list(tensors))
                    expect_declared(model, 0, case.dtype, ["n", 6, None, None])
            expect_only(v, "torchvision::deform_conv2d")
            if name == "DeformConv":
                with about(TWO_LAYERS):
                    models[TWO_LAYERS] = expect_two_layers(v, windows)
        if not v.ok:
            return
        with v.check(f"{wanted}, with every parameter in its attribute"):
            for case, window, _, _ in cases:
                with about(case.title):
                    expect_deform_attributes(models[case.title], case, window)
                    graphs.expect_valid(models[case.title])
        if not v.ok:
            return
    with v.check("computes the convolution, at sizes that were not exported"):
        for case, window, _, fresh in drawn:
            with about(case.title):
                right = deform_conv_by_hand(case, window, **fresh)
                (got,) = graphs.run(as_standard(models[case.title]), fresh)
                expect_close(got, right.astype(case.dtype), name="the convolution", rtol=1e-4, atol=1e-4)
        with about(TWO_LAYERS):
            for place, got in enumerate(graphs.run(models[TWO_LAYERS], feeds)):
                own = {name: feeds[f"{name}{place}"] for name in ("weight", "offset", "mask", "bias")}
                right = deform_conv_by_hand(LAYER, windows[place], feeds["x"], **own)
                expect_close(got, right.astype(np.float32), name=f"convolution {place + 1}", rtol=1e-4, atol=1e-4)


def expect_two_layers(v: Judge, windows: list[Window]) -> onnx.ModelProto:
    """Two nodes, each with the tensors and the strides of its own layer."""
    error = v.error(TWO_LAYERS)
    if error:
        raise explained(error, TWO_LAYERS, _LETTERS, symbolic_causes())
    model = v.model(TWO_LAYERS)
    found = [node for node in model.graph.node if (node.domain, node.op_type) == ("", "DeformConv")]
    if len(found) != 2:
        raise WrongAnswer(f"expected 2 × DeformConv, the graph has {len(found)}.")
    for place, node in enumerate(found):
        expected = ["x", *(f"{name}{place}" for name in ("weight", "offset", "bias", "mask"))]
        strides, other = nodes.attributes(node).get("strides"), list(windows[1 - place].stride)
        layer = "each node has the values that the symbolic function receives for its layer."
        if list(node.input) == [name.replace(str(place), str(1 - place)) for name in expected]:
            raise WrongAnswer(f"node {place + 1} has the inputs {list(node.input)}, expected {expected}: {layer}")
        if strides == other and nodes.attributes(found[1 - place]).get("strides") == other:
            raise WrongAnswer(f"both nodes have the strides {strides}: {layer}")
    return model


def expect_deform_tensors(model: onnx.ModelProto, case: Deform, names: list[str]) -> None:
    """One node of the right type, whose inputs are X, W, offset, B, mask."""
    found = graphs.ops(model)
    if case.target not in found:
        if case.target != "DeformConv" and "DeformConv" in found:
            raise WrongAnswer(
                f"the graph has ONNX's DeformConv, which opset {case.opset} does not have: it is new in 19. A registration "
                "serves its own opset and all above, so the one for DeformConv is made at 19."
            )
        if case.target == "DeformConv" and "oplab::DeformConv2d" in found:
            raise WrongAnswer(
                "expected ONNX's own DeformConv, the graph has oplab::DeformConv2d. The registration for older opsets stays in "
                "use until a higher version is registered."
            )
    node = nodes.only_node(model, case.target)
    inputs, order = nodes.inputs(node), ["x", "weight", "offset", "bias", "mask"]
    expected = [name if name in names else "" for name in order]
    if not case.bias and len(inputs) > 3 and inputs[3] not in names:
        expected[3] = inputs[3]  # torchvision's zeros: a tensor of the graph, or left out
    while not expected[-1]:
        expected.pop()
    if inputs == expected:
        graphs.expect_inputs(model, names)
        nodes.expect_alone(model, case.target)
        return
    shown = f"The node's inputs are {inputs}, expected {expected} (DeformConv: X, W, offset, B, mask)."
    raise WrongAnswer(f"{shown}{_likely_inputs(inputs, expected, case)}")


def _likely_inputs(inputs: list[str], expected: list[str], case: Deform) -> str:
    swapped = list(expected)
    if len(inputs) == len(expected) and case.mask and case.bias:
        swapped[3], swapped[4] = swapped[4], swapped[3]
        if inputs == swapped:
            return " Bias and mask are swapped: PyTorch's schema has mask before bias, ONNX has B before mask."
        if inputs[:3] == ["x", "offset", "weight"]:
            return " weight and offset are swapped: this is the order of torchvision's Python function."
    if inputs == ["x", "offset"]:
        return " This is the shortcut of older texts: weight, bias and mask are lost, and no kernel can guess them."
    if not case.mask and len(inputs) == 5:
        return (
            " The fifth is torchvision's placeholder, zeros of shape (N, 1): use_mask is False here, and mask must be left out. "
            'A letter other than "b" in parse_args makes use_mask a value of the graph, and that counts as true in an if.'
        )
    if case.mask and "mask" not in inputs:
        return " The mask is dropped although use_mask is True: every sample would count fully."
    if case.bias and "bias" not in inputs:
        return " The bias is dropped."
    return ""


DEFORM_ATTRIBUTES = {"strides": "INTS", "pads": "INTS", "dilations": "INTS", "group": "INT", "offset_group": "INT"}


def expect_deform_attributes(model: onnx.ModelProto, case: Deform, window: Window) -> None:
    """The attributes of DeformConv-19, a missing one counting as its default."""
    node = nodes.only_node(model, case.target)
    known_attributes(node, [*DEFORM_ATTRIBUTES, "kernel_shape"])
    found = {
        "strides": [1, 1],
        "pads": [0] * 4,
        "dilations": [1, 1],
        "group": 1,
        "offset_group": 1,
        **nodes.attributes(node),
    }
    for entry in node.attribute:
        expect_kind(node, entry.name, DEFORM_ATTRIBUTES.get(entry.name, "INTS"), " The suffix _i makes an int or ints.")
    pads = [*window.pad, *window.pad]
    right = {
        "strides": list(window.stride),
        "pads": pads,
        "dilations": list(window.dilation),
        "group": case.groups,
        "offset_group": case.offset_groups,
        "kernel_shape": list(window.kernel),
    }
    for name, value in right.items():
        got = found.get(name, value)
        if got == value:
            continue
        cause = ""
        if name not in nodes.attributes(node):
            cause = " The node does not have this attribute, so its default holds."
        elif name == "pads":
            cause = " Their order is: top, left, bottom, right, so pad_h and pad_w come twice each, alternating."
            cause += " Here they are in pairs." if got == sorted(pads, key=window.pad.index) else ""
        elif isinstance(value, list) and got == value[::-1]:
            cause = " Height and width are swapped: ONNX counts the axes from the height on."
        elif "group" in name and (found["group"], found["offset_group"]) == (case.offset_groups, case.groups):
            cause = " group and offset_group are swapped."
        raise WrongAnswer(f"{name} is {got}, expected {value} for a convolution with {_words(window, case)}.{cause}")


def _words(window: Window, case: Deform) -> str:
    parts = ("stride", "pad", "dilation")
    shown = ", ".join(f"{part}_h {getattr(window, part)[0]}, {part}_w {getattr(window, part)[1]}" for part in parts)
    return f"{shown}, groups {case.groups}, offset_groups {case.offset_groups}"


def as_standard(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model for ONNX Runtime's own kernel: oplab::DeformConv2d, renamed, is DeformConv of opset 19."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node:
        if node.domain == "oplab":
            node.domain, node.op_type = "", "DeformConv"
    del copy.opset_import[:]
    copy.opset_import.append(onnx.helper.make_opsetid("", max(19, graphs.opset(model) or 19)))
    copy.ir_version = max(9, copy.ir_version)
    return copy


def deform_conv_by_hand(
    case: Deform,
    window: Window,
    x: np.ndarray,
    weight: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray | None = None,
    bias: np.ndarray | None = None,
) -> np.ndarray:
    """Deformable convolution in float64, straight from its definition (Zhu et al., Deformable ConvNets v2, equation 1).

    Args:
        x: (N, C, H, W); weight: (M, C / groups, kh, kw); offset: (N, offset_groups * kh * kw * 2, oh, ow), rows before columns;
            mask: (N, offset_groups * kh * kw, oh, ow); bias: (M,).
    """
    batch, channels, height, width = x.shape
    (kh, kw), (oh, ow) = window.kernel, window.out((height, width))
    shifts = offset.astype(np.float64).reshape(batch, case.offset_groups, kh * kw, 2, oh, ow)
    scale = (
        np.ones((batch, case.offset_groups, kh * kw, oh, ow))
        if mask is None
        else mask.astype(np.float64).reshape(batch, case.offset_groups, kh * kw, oh, ow)
    )
    ky, kx = np.divmod(np.arange(kh * kw), kw)
    rows = (np.arange(oh) * window.stride[0] - window.pad[0])[:, None] + (ky * window.dilation[0])[:, None, None]
    columns = (np.arange(ow) * window.stride[1] - window.pad[1])[None, :] + (kx * window.dilation[1])[:, None, None]
    samples = np.empty((batch, channels, kh * kw, oh, ow))
    for n in range(batch):
        for channel in range(channels):
            group = channel // (channels // case.offset_groups)
            at = rows + shifts[n, group, :, 0], columns + shifts[n, group, :, 1]
            samples[n, channel] = bilinear(x[n, channel].astype(np.float64), *at) * scale[n, group]
    flat = weight.astype(np.float64).reshape(case.groups, -1, channels // case.groups, kh * kw)
    parts = samples.reshape(batch, case.groups, channels // case.groups, kh * kw, oh, ow)
    y = np.einsum("gmck,ngckij->ngmij", flat, parts).reshape(batch, -1, oh, ow)
    return y if bias is None else y + bias.astype(np.float64)[:, None, None]


def bilinear(image: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Samples of an image (H, W) between its pixels; outside it is 0."""
    height, width = image.shape
    padded = np.pad(image, 1)
    top, left = np.floor(rows), np.floor(columns)
    down, right = rows - top, columns - left

    def pixel(row: np.ndarray, column: np.ndarray) -> np.ndarray:
        return padded[np.clip(row + 1, 0, height + 1).astype(int), np.clip(column + 1, 0, width + 1).astype(int)]

    upper = pixel(top, left) * (1 - right) + pixel(top, left + 1) * right
    lower = pixel(top + 1, left) * (1 - right) + pixel(top + 1, left + 1) * right
    return upper * (1 - down) + lower * down


# --- grid ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Points:
    """One export of ``grid``: which of the optional inputs are given."""

    opset: int
    optional: tuple[str, ...]
    dtype: str = "float32"
    dims: int = 3

    @property
    def names(self) -> list[str]:
        return ["pos", "size", *self.optional]

    @property
    def title(self) -> str:
        extra = f", {self.dtype} in {self.dims}-D" if self.dtype != "float32" else ""
        return f"opset {self.opset}, grid({', '.join(self.names)}){extra}"


GRID = [
    Points(13, ("start", "end")),
    Points(20, ("start",)),
    Points(13, ("end",)),
    Points(9, ()),
    Points(17, ("end",), "float64", 2),
]


def points(rng: np.random.Generator, case: Points, count: int) -> dict[str, np.ndarray]:
    """Points, a cell size, and a box that is a little larger than the points."""
    made = {
        "pos": rng.uniform(-2, 3, size=(count, case.dims)),
        "size": rng.uniform(0.3, 0.9, size=case.dims),
        "start": rng.uniform(-3, -2.2, size=case.dims),
        "end": rng.uniform(3.2, 4, size=case.dims),
    }
    return {name: made[name].astype(case.dtype) for name in case.names}


def collect_grid(c: Collect) -> None:
    import torch

    from oplab import ops

    ops.load()
    register(c, "grid")
    for number, case in enumerate(GRID):
        path = c.scratch / f"{number}.onnx"
        inputs = {name: torch.from_numpy(value) for name, value in points(c.rng, case, 6).items()}
        grid, axes = by_name(torch.ops.oplab.grid, inputs), {"pos": {0: "n"}}
        c.attempt(case.title, exporting.export, grid, inputs, case.opset, path, axes=axes)
        c.file(case.title, path)
    feeds, start = two_grids(c.rng)
    fixed = torch.from_numpy(start)

    def both(pos, size, end, other):
        return torch.ops.oplab.grid(pos, size, fixed, end), torch.ops.oplab.grid(other, size, None, end + 0.5)

    inputs = {name: torch.from_numpy(value) for name, value in feeds.items()}
    axes = {"pos": {0: "n"}, "other": {0: "m"}}
    c.attempt(TWO_GRIDS, exporting.export, both, inputs, 13, c.scratch / "two.onnx", outputs=("out", "out2"), axes=axes)
    c.file(TWO_GRIDS, c.scratch / "two.onnx")


TWO_GRIDS = "two grids in one model, one with a constant start, the other with an end that is computed"


def two_grids(rng: np.random.Generator, count: int = 6) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The inputs of a model with two grids, and the constant start of the first."""
    made = points(rng, Points(13, ("start", "end")), count)
    start = made.pop("start")
    return {**made, "other": rng.uniform(-2, 3, size=(count + 1, 3)).astype(np.float32)}, start


def judge_grid(v: Judge) -> None:
    for case in GRID:
        points(v.rng, case, 6)
    _, fixed = two_grids(v.rng)
    models: dict[str, onnx.ModelProto] = {}
    with v.check("one oplab::Grid, each input in its own place"):
        for case in GRID:
            with about(case.title):
                models[case.title] = model = exported(v, case.title, "oplab::grid", case.opset)
                expect_grid_inputs(model, case)
                graphs.expect_inputs(model, case.names)
                nodes.expect_alone(model, "oplab::Grid")
                expect_int64(model)
                expect_declared(model, 0, "int64", ["n"])
                graphs.expect_valid(model)
        expect_only(v, "oplab::grid")
        with about(TWO_GRIDS):
            two = expect_two_grids(v)
    if not v.ok:
        return
    with v.check("gives the voxels of torch.ops.oplab.grid, at sizes that were not exported"):
        for case in GRID:
            for count in (1, 40, 0):
                fresh = points(v.rng, case, count)
                with about(case.title):
                    (got,) = graphs.run(models[case.title], fresh, kernels=True)
                    expect_close(got, voxels(**fresh), name=f"the voxels of {describe(fresh['pos'])}")
        fresh, _ = two_grids(v.rng, 30)
        with about(TWO_GRIDS):
            first, second = graphs.run(two, fresh, kernels=True)
            pos, size, end, other = (fresh[name] for name in ("pos", "size", "end", "other"))
            cause = "The first grid begins where its points do: a start that is a constant of the model is a value like others."
            likely = {cause: voxels(pos, size, None, end)}
            expect_close(first, voxels(pos, size, fixed, end), name="the first grid", likely=likely)
            cause = "The second grid ends where its points do, and not at its input `end`."
            likely = {
                cause: voxels(other, size),
                "The second grid has the start of the first.": voxels(other, size, fixed, end + 0.5),
            }
            expect_close(
                second, voxels(other, size, None, end + np.float32(0.5)), name="the second grid", likely=likely
            )


def expect_two_grids(v: Judge) -> onnx.ModelProto:
    """Two nodes oplab::Grid: the first has all four inputs, the second no start."""
    error = v.error(TWO_GRIDS)
    if error:
        raise explained(error, TWO_GRIDS, _LETTERS, symbolic_causes())
    model = v.model(TWO_GRIDS)
    found = [nodes.inputs(node) for node in model.graph.node if (node.domain, node.op_type) == ("oplab", "Grid")]
    if len(found) != 2:
        raise WrongAnswer(f"expected 2 × oplab::Grid, the graph has {len(found)}.")
    given = [[bool(name) for name in [*inputs, *[""] * 4][:4]] for inputs in found]
    if given != [[True] * 4, [True, True, False, True]]:
        raise WrongAnswer(
            f"the nodes' inputs are {found}; expected are all four, then pos, size, '', end. _is_none tells whether an input "
            "is given, for each call anew: a constant and a computed value are given."
        )
    return model


def expect_grid_inputs(model: onnx.ModelProto, case: Points) -> None:
    """pos, size, start, end: a missing one has the empty name, or is left out at the end."""
    node = nodes.only_node(model, "oplab::Grid")
    if node.attribute:
        raise WrongAnswer(
            f"oplab::Grid has no attributes, the node has {node.attribute[0].name}: start and end are inputs."
        )
    inputs = nodes.inputs(node)
    expected = [name if name in case.names else "" for name in ("pos", "size", "start", "end")]
    while not expected[-1]:
        expected.pop()
    if inputs == expected:
        return
    cause = ""
    baked = [
        wanted for name, wanted in zip(inputs, expected, strict=False) if wanted and name and name not in case.names
    ]
    makers = {output: node.op_type for node in model.graph.node for output in node.output if node.op_type != "Constant"}
    made = [name for name in inputs if name in makers and name not in case.names]
    if made:
        cause = (
            f" {made[0]} is made by the node {makers[made[0]]}: pass on the values that the symbolic function is given."
        )
    elif baked:
        cause = f" {baked[0]} is missing. A missing input was baked into the graph as a constant."
    elif len(inputs) > 2 and "" in expected and inputs == [name for name in expected if name]:
        cause = (
            " start was left out in the middle, so end moved into its place and is read as start. Only at the end may an input be "
            'left out; before others it keeps its place with the empty name "".'
        )
    elif inputs[2:4] == ["end", "start"]:
        cause = " start and end are swapped."
    elif len(inputs) > len(expected) or any(
        name and not wanted for name, wanted in zip(inputs, expected, strict=False)
    ):
        cause = (
            " An optional input that is not given must be missing in ONNX too: the kernel then takes the least coordinates for "
            "start, the greatest for end. A constant in its place means something else."
        )
    elif len(inputs) < len(expected):
        cause = f" {expected[-1]} is given in PyTorch and lost in ONNX."
    raise WrongAnswer(f"The node's inputs are {inputs}, expected {expected}.{cause}")


def expect_int64(model: onnx.ModelProto) -> None:
    """The declared type of the first output."""
    import onnx

    kind = model.graph.output[0].type.tensor_type.elem_type
    if kind != onnx.TensorProto.INT64:
        raise WrongAnswer(
            f"The graph's output is declared {onnx.TensorProto.DataType.Name(kind)}, expected INT64, as PyTorch's result is. "
            "setType(pos.type()) would copy the dtype of pos."
        )


def voxels(
    pos: np.ndarray, size: np.ndarray, start: np.ndarray | None = None, end: np.ndarray | None = None
) -> np.ndarray:
    """The voxel of each point, as torch_cluster::grid counts: the first dimension runs fastest. All in the dtype of pos."""
    if not len(pos):
        return np.zeros(0, np.int64)
    low = pos.min(0) if start is None else start
    high = pos.max(0) if end is None else end
    cells = np.trunc((high - low) / size).astype(np.int64) + 1
    strides = np.concatenate([[1], np.cumprod(cells)[:-1]])
    return (np.trunc((pos - low) / size).astype(np.int64) * strides).sum(1)


# --- foo -----------------------------------------------------------------------------------------------------------

FOO_SHAPES = [(2, 3), (5,), (2, 1, 3)]


def foo_numbers(rng: np.random.Generator) -> list[tuple[float, int]]:
    """For each export an attr1 with a fraction, below 2, and an attr2 from 2 on: neither can be taken for the other."""
    scales = rng.integers(-5, 2, size=len(FOO_SHAPES)) + rng.uniform(0.2, 0.8, size=len(FOO_SHAPES))
    powers = rng.choice(np.arange(2, 7), size=len(FOO_SHAPES), replace=False)
    return [(round(float(scale), 6), int(power)) for scale, power in zip(scales, powers, strict=True)]


def collect_foo(c: Collect) -> None:
    import torch

    from oplab import ops

    ops.load()

    class FooModel(torch.nn.Module):
        def __init__(self, attr1: float, attr2: int):
            super().__init__()
            self._numbers = attr1, attr2  # the call has them; where the module keeps them is its own affair

        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:  # not the names of the inputs
            return torch.ops.oplab.foo_forward(first, second, *self._numbers)

    foo, before = c.function("foo"), set(exporting.registrations())
    for number, (shape, (attr1, attr2)) in enumerate(zip(FOO_SHAPES, foo_numbers(c.rng), strict=True)):
        path, title = c.scratch / f"{number}.onnx", foo_title(attr1, attr2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = torch.rand(shape), torch.rand(shape)
            kept, module = [x.clone() for x in given], FooModel(attr1, attr2).eval()
            c.attempt(title, foo, module, given, path)
        c.file(title, path)
        c.value(f"{title}: kept", [all(map(torch.equal, kept, given)), not module.training])
    c.value("registered", [entry for entry in exporting.registrations() if entry not in before])


def foo_title(attr1: float, attr2: int) -> str:
    return f"attr1 = {attr1}, attr2 = {attr2}"


def judge_foo(v: Judge) -> None:
    numbers = foo_numbers(v.rng)
    models: dict[str, onnx.ModelProto] = {}
    with v.check("one oplab::Foo with two inputs"):
        for pair in numbers:
            title = foo_title(*pair)
            with about(title):
                error = v.error(title)
                if error and error.type == "ConversionError":
                    raise WrongAnswer(
                        f"{title}: the dynamo path has no mapping for oplab::foo_forward, and it does not use yours: "
                        "a registered symbolic function serves the TorchScript path, dynamo=False."
                    )
                if error and error.type == "UnsupportedOperatorError":
                    raise not_found(v, title, "oplab::foo_forward")
                if error:
                    raise explained(error, title, _LETTERS, symbolic_causes())
                models[title] = model = v.model(title)
                expect_replaced(model, "oplab::foo_forward")
                node = nodes.only_node(model, "oplab::Foo")
                graphs.expect_inputs(model, ["input1", "input2"])
                if list(node.input) != ["input1", "input2"]:
                    raise WrongAnswer(
                        f"The node's inputs are {list(node.input)}, expected ['input1', 'input2'].{_foo_inputs(node)}"
                    )
                nodes.expect_alone(model, "oplab::Foo")
    if not v.ok:
        return
    with v.check("attr1 is a float, attr2 an int, with the module's values"):
        for attr1, attr2 in numbers:
            title = foo_title(attr1, attr2)
            with about(title):
                expect_foo_attributes(nodes.only_node(models[title], "oplab::Foo"), attr1, attr2)
    with v.check("for opset 13 and version 2 of the domain oplab"):
        for (title, model), shape in zip(models.items(), FOO_SHAPES, strict=True):
            with about(title):
                expect_declared(
                    model, 0, "float32", ["?" if is_named(model, axis) else n for axis, n in enumerate(shape)]
                )
                if v.value(f"{title}: kept") != [True, True]:
                    what = "the example inputs have" if not v.value(f"{title}: kept")[0] else "module.training has"
                    raise WrongAnswer(
                        f"{what} other values after the call: an export leaves the module and its inputs as they are."
                    )
                graphs.expect_opset(model, 13)
                if graphs.opset(model, "oplab") != 2:
                    raise WrongAnswer(
                        f"The model imports version {graphs.opset(model, 'oplab')} of the domain oplab, expected 2. The exporter "
                        "writes 1 unless custom_opsets names the domain of the node; ONNX Runtime then finds no Foo."
                    )
                graphs.expect_valid(model)
    if not v.ok:
        return
    with v.check("computes attr1 * input1 + input2 ** attr2 in ONNX Runtime"):
        for shape, (attr1, attr2) in zip(FOO_SHAPES, numbers, strict=True):
            title = foo_title(attr1, attr2)
            feeds = {name: v.rng.uniform(-2, 2, size=shape).astype(np.float32) for name in ("input1", "input2")}
            with about(title):
                (got,) = graphs.run(models[title], feeds, kernels=True)
                right = attr1 * feeds["input1"].astype(np.float64) + feeds["input2"].astype(np.float64) ** attr2
                expect_close(got, right.astype(np.float32), name=f"Foo of {describe(feeds['input1'])}")


def is_named(model: onnx.ModelProto, axis: int) -> bool:
    """Whether an axis of the first graph input has a name instead of a size."""
    return bool(model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param)


def _foo_inputs(node: onnx.NodeProto) -> str:
    if list(node.input) == ["input2", "input1"]:
        return " They are swapped."
    if len(node.input) > 2:
        return ' attr1 and attr2 came as inputs: with the letter "v" a number becomes a tensor of the graph, not an attribute.'
    return ""


def expect_foo_attributes(node: onnx.NodeProto, attr1: float, attr2: int) -> None:
    """attr1 as FLOAT, attr2 as INT."""
    known_attributes(node, ["attr1", "attr2"])
    expect_kind(node, "attr1", "FLOAT", ' The suffix of the name in g.op is the type: attr1_f, and "f" in parse_args.')
    expect_kind(node, "attr2", "INT", ' The suffix of the name in g.op is the type: attr2_i, and "i" in parse_args.')
    found = nodes.attributes(node)
    if abs(found["attr1"] - attr1) > 1e-6 * max(1.0, abs(attr1)):
        cause = ""
        if found["attr1"] == int(attr1):
            cause = ' The fraction is cut off: the letter "i" in parse_args silently turns a float into an int.'
        elif found["attr1"] == attr2:
            cause = " attr1 and attr2 are swapped."
        elif abs(found["attr1"] - attr1) < 5e-3:
            cause = " It is rounded, or has passed through a type that is shorter than float32."
        raise WrongAnswer(f"attr1 is {found['attr1']:.7g}, expected {attr1}.{cause}{_written_down(cause)}")
    if found["attr2"] != attr2:
        raise WrongAnswer(f"attr2 is {found['attr2']}, expected {attr2}.{_written_down('')}")


def _written_down(cause: str) -> str:
    return "" if cause else " Every module has its own number: take the one that the symbolic function receives."
