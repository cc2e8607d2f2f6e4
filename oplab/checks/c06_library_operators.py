"""Checks of chapter 06: nodes that represent operators of a library, their inputs and attributes one by one, and what they compute."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.errors import first_line
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import Causes, explained, no_symbolic, symbolic_causes
from oplab.checks.symbolic import Operator, record_registered, register, translated
from oplab.parity.arrays import WrongAnswer, expect_close

if TYPE_CHECKING:
    import onnx
    import torch


def by_name(function: Callable[..., torch.Tensor], names: Iterable[str]) -> Callable[..., torch.Tensor]:
    """The function, called with its inputs by name: optional ones in the middle may be missing."""
    return lambda *args: function(**dict(zip(names, args, strict=True)))


def _exported(v: Judge, operator: Operator, title: str, opset: int) -> onnx.ModelProto:
    """The model recorded under ``title``, of this opset and with the outputs of the operator."""
    model = translated(v, operator, title, opset)
    graphs.expect_opset(model, opset)
    graphs.expect_outputs(model, operator.outputs)
    return model


def expect_only(v: Judge, operator: Operator) -> None:
    """Demand that nothing else was registered: a mapping changes every export of the process."""
    others = [str(entry) for entry in v.value("registered") if not str(entry).startswith(f"{operator.name} ")]
    if others and len(others) < len(v.value("registered")):
        raise WrongAnswer(
            f"{others[0]} is registered, too: it changes every later export in this process. Register {operator.name} only."
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


def run_custom(
    model: onnx.ModelProto, name: str, kernel: Callable[..., np.ndarray], feeds: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Run a model in onnx's reference evaluator, with a NumPy function as the kernel of ``oplab::name``.

    Raises:
        WrongAnswer: the evaluator or the kernel cannot use the model.
    """
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    def compute(self, *inputs, **attributes):
        return (kernel(*inputs, **attributes),)

    made = type(name, (OpRun,), {"op_domain": "oplab", "_run": compute})
    try:
        return ReferenceEvaluator(model, new_ops=[made]).run(None, feeds)
    except Exception as error:
        raise WrongAnswer(f"the grader's kernel cannot run the node: {first_line(error)}") from None


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


# --- ps_roi_align --------------------------------------------------------------------------------------------------

_MISUSES: Causes = {
    "'NoneType' object is not subscriptable": (
        "x.type().sizes() is None as soon as one axis is dynamic; x.type().varyingSizes() has None for that axis alone."
    ),
    # PyTorch's exporter, for a Reshape to a shape with a 0 and without a -1
    "shape_has_zero": "PyTorch's exporter accepts a 0 in the shape of Reshape only next to a -1: use -1 for the number of boxes.",
}
_ONE_OF_TWO: Causes = dict.fromkeys(
    ("incorrect number of outputs", "non-iterable torch._C.Value", "not iterable"),
    "The operator has two results: return (value, None), since torchvision's Python function drops channel_mapping.",
)
PS_ALIGN = Operator("torchvision::ps_roi_align", ("image", "rois"), "", causes={**_MISUSES, **_ONE_OF_TWO})


@dataclass(frozen=True)
class Align:
    """One export of ``ps_roi_align``: the bins are ``height`` x ``width``, never the same number."""

    opset: int
    height: int
    width: int
    channels: int
    ratio: int
    dtype: str = "float32"

    @property
    def title(self) -> str:
        kind = f", {self.dtype}" if self.dtype != "float32" else ""
        return f"opset {self.opset}, {self.height} x {self.width} bins, sampling_ratio {self.ratio}{kind}"


ALIGN = [
    Align(16, 2, 3, 2, 2),
    Align(20, 3, 2, 1, -1),
    Align(17, 4, 3, 3, 0),
    Align(18, 2, 4, 2, 3, dtype="float64"),
]
BELOW = [Align(15, 2, 3, 2, 2), Align(9, 3, 2, 1, -1), Align(13, 4, 2, 1, 0)]
HEADS = Align(16, 2, 3, 2, 2), Align(16, 3, 2, 2, 1)
TWO_OUTPUTS = ("out", "out2")
TWO_HEADS = "two ps_roi_align of one image in one model"


def boxes(
    rng: np.random.Generator, case: Align, scale: float, count: int, images: int, size: tuple[int, int]
) -> np.ndarray:
    """Boxes (count, 5) inside the images, scaled: the number of samples in a bin is never close to the next one."""
    made = np.empty((count, 5))
    made[:, 0] = (np.arange(count) + 1) % images  # the last image is read, too
    for axis, (length, bins) in enumerate(zip(size, (case.height, case.width), strict=True)):
        extent = bins * (rng.integers(0, 2, size=count) + rng.uniform(0.3, 0.7, size=count))
        start = rng.uniform(0.2, length - 0.2 - extent)
        made[:, 2 - axis], made[:, 4 - axis] = start / scale, (start + extent) / scale
    return made.astype(case.dtype)


def draw_align(rng: np.random.Generator, case: Align) -> tuple[float, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A scale, the tensors to export with, and fresh ones of other sizes. Both halves draw the same."""
    scale = round(float(rng.uniform(0.3, 0.8)), 4)
    tensors = []
    for images, count, size in ((2, 3, (15, 17)), (3, 7, (18, 14))):
        shape = (images, case.channels * case.height * case.width, *size)
        image = rng.normal(size=shape).astype(case.dtype)
        tensors.append({"image": image, "rois": boxes(rng, case, scale, count, images, size)})
    return scale, tensors[0], tensors[1]


def collect_ps_roi_align(c: Collect) -> None:
    import torchvision

    register(c, "ps_roi_align", PS_ALIGN)
    axes = {"image": {0: "n", 2: "h", 3: "w"}, "rois": {0: "k"}}

    def align(case: Align, scale: float) -> Callable[..., torch.Tensor]:
        return lambda image, rois: torchvision.ops.ps_roi_align(
            image, rois, (case.height, case.width), scale, case.ratio
        )

    for case in [*ALIGN, *BELOW]:
        scale, example, _ = draw_align(c.rng, case)
        exporting.record(c, case.title, align(case, scale), example, case.opset, axes=axes)
    scale, example, _ = draw_align(c.rng, HEADS[0])
    heads = [align(head, scale) for head in HEADS]

    def both(image, rois):
        return tuple(head(image, rois) for head in heads)

    exporting.record(c, TWO_HEADS, both, example, 16, outputs=TWO_OUTPUTS, axes=axes)


def judge_ps_roi_align(v: Judge) -> None:
    drawn = {case: draw_align(v.rng, case) for case in [*ALIGN, *BELOW]}
    shared_scale, _, shared = draw_align(v.rng, HEADS[0])
    models: dict[str, onnx.ModelProto] = {}
    with v.require("ONNX's own nodes from opset 16 on"):
        for case in ALIGN:
            with about(case.title):
                models[case.title] = model = _exported(v, PS_ALIGN, case.title, case.opset)
                expect_own_nodes(model)
                graphs.expect_inputs(model, ["image", "rois"])
                graphs.expect_used(model, ["image", "rois"])
                expect_declared(model, 0, case.dtype, ["k", case.channels, case.height, case.width])
                graphs.expect_valid(model)
        expect_only(v, PS_ALIGN)
        with about(TWO_HEADS):
            models[TWO_HEADS] = _exported(v, replace(PS_ALIGN, outputs=TWO_OUTPUTS), TWO_HEADS, 16)
    with v.require("computes torchvision's ps_roi_align, at sizes that were not exported"):
        for case in ALIGN:
            scale, _, fresh = drawn[case]
            with about(case.title):
                (got,) = graphs.run(models[case.title], fresh, causes=_ALIGN_CAUSES)
                expect_aligned(models[case.title], case, scale, fresh, got)
        with about(TWO_HEADS):
            for head, got in zip(HEADS, graphs.run(models[TWO_HEADS], shared, causes=_ALIGN_CAUSES), strict=True):
                with about(f"the one with {head.height} x {head.width} bins"):
                    expect_aligned(models[TWO_HEADS], head, shared_scale, shared, got)
        for case in ALIGN:
            scale, _, fresh = drawn[case]
            with about(f"{case.title}, one box"):
                one = {**fresh, "rois": fresh["rois"][:1]}
                (got,) = graphs.run(models[case.title], one, causes=_ALIGN_CAUSES)
                expect_aligned(models[case.title], case, scale, one, got)
            with about(f"{case.title}, no boxes"):
                (got,) = graphs.run(models[case.title], {**fresh, "rois": fresh["rois"][:0]}, causes=_EMPTY_CAUSES)
                right = np.zeros((0, case.channels, case.height, case.width), case.dtype)
                expect_close(got, right, name="the result without boxes")
    with v.check("one oplab::PSRoIAlign below opset 16, with all four numbers"):
        for case in BELOW:
            with about(case.title):
                expect_align_node(v, case, drawn[case][0])


_ALIGN_CAUSES: Causes = {
    "ampling": "RoiAlign takes no negative sampling_ratio: 0 has the meaning that a negative one has in torchvision.",
    "annot be reshaped": (
        "A size of the example, or of another call, is in the graph as a constant: a -1 in Reshape's shape follows from the input."
    ),
}
_EMPTY_CAUSES: Causes = {
    "annot be reshaped": (
        "Without boxes, Reshape cannot compute any size by -1 but that of the boxes: the number of channels is known at export, "
        "so write it."
    ),
}


def expect_own_nodes(model: onnx.ModelProto) -> None:
    """RoiAlign of ONNX, and no node of another domain."""
    foreign = nodes.foreign(model)
    if "oplab::PSRoIAlign" in foreign:
        raise WrongAnswer(
            "the graph has oplab::PSRoIAlign, which is for opsets below 16. A registration serves its own opset and all above, "
            "until a higher one is registered: register the nodes of ONNX at 16."
        )
    if foreign:
        raise WrongAnswer(f"expected nodes of ONNX's own domain, the graph has {foreign[0]}.")
    if "RoiAlign" not in graphs.ops(model):
        raise WrongAnswer(f"the graph has no RoiAlign; it has {', '.join(sorted(graphs.ops(model))) or 'no nodes'}.")
    made_by = {output: node for node in model.graph.node for output in node.output}
    for align in (node for node in model.graph.node if node.op_type == "RoiAlign"):
        source = made_by.get(align.input[2])
        while source is not None and source.op_type in ("Cast", "Identity"):
            source = made_by.get(source.input[0])
        # ONNX Runtime ends the process for a scalar, so such a model is not run with one box.
        if source is not None and source.op_type == "Squeeze" and len(source.input) < 2:
            raise WrongAnswer(
                "batch_indices comes from a Squeeze without axes, which removes every dimension of size 1: with one box "
                "nothing is left. Name the axis, or select the column with a Gather whose index is a scalar."
            )


def expect_aligned(
    model: onnx.ModelProto, case: Align, scale: float, feeds: dict[str, np.ndarray], got: np.ndarray
) -> None:
    """The right result; a wrong one with the number of RoiAlign, or the choice of channels, that explains it."""
    right = choose(case, every_channel(case, scale, **feeds))
    first = {**feeds, "rois": feeds["rois"] * np.asarray([0, 1, 1, 1, 1], case.dtype)}
    likely = {
        "Every box reads image 0: column 0 of rois is the number of the image.": choose(
            case, every_channel(case, scale, **first)
        ),
        "Channel (i * w + j) * C + c was taken for output channel c; the order is (c * h + i) * w + j.": choose(
            case, every_channel(case, scale, **feeds), "bins first"
        ),
        "The bins of a channel are counted column by column; the order is (c * h + i) * w + j.": choose(
            case, every_channel(case, scale, **feeds), "columns first"
        ),
        "The same channel was taken for all bins: each bin has its own channel, (c * h + i) * w + j.": choose(
            case, every_channel(case, scale, **feeds), "one channel"
        ),
    }
    likely = {cause: wrong.astype(case.dtype) for cause, wrong in likely.items()}
    try:
        expect_close(got, right.astype(case.dtype), name="the result", rtol=1e-3, atol=1e-3, likely=likely)
    except WrongAnswer as error:
        raise WrongAnswer(f"{error}{wrong_number(model, case, scale)}") from None


def wrong_number(model: onnx.ModelProto, case: Align, scale: float) -> str:
    """What is different from the call in the RoiAlign nodes of a model whose result is wrong; empty if that is not clear."""
    found = [nodes.attributes(node) for node in model.graph.node if node.op_type == "RoiAlign"]
    if len(found) != 1:
        return ""
    (given,) = found
    height, width = given.get("output_height", 1), given.get("output_width", 1)
    if given.get("coordinate_transformation_mode", b"half_pixel") != b"half_pixel":
        return (
            " RoiAlign's mode output_half_pixel is roi_align with aligned=False: each sample is half a pixel too far to the right and "
            "down, and small boxes are enlarged."
        )
    if (height, width) == (case.width, case.height):
        return " output_height and output_width are swapped."
    if abs(given.get("spatial_scale", 1.0) - scale) > 1e-6:
        return f" spatial_scale is {given.get('spatial_scale', 1.0):.6g}, the call's is {scale}."
    if given.get("sampling_ratio", 0) != max(case.ratio, 0):
        return f" sampling_ratio is {given.get('sampling_ratio', 0)}, the call's is {case.ratio}."
    if given.get("mode", b"avg") != b"avg":
        return " The mode of RoiAlign is max; the operator computes averages."
    return ""


def expect_align_node(v: Judge, case: Align, scale: float) -> None:
    """One custom node with the inputs and numbers of the call."""
    model = _exported(v, PS_ALIGN, case.title, case.opset)
    if "RoiAlign" in graphs.ops(model):
        raise WrongAnswer(
            f"the graph has RoiAlign: opset {case.opset} has no RoiAlign in the mode half_pixel, which is new in 16. A "
            "registration serves its own opset and all above, so this one is made at 16."
        )
    node = nodes.only_node(model, "oplab::PSRoIAlign")
    expect_two_inputs(node, ["image", "rois"])
    nodes.expect_alone(model, "oplab::PSRoIAlign")
    graphs.expect_inputs(model, ["image", "rois"])
    numbers = {
        "spatial_scale": scale,
        "pooled_height": case.height,
        "pooled_width": case.width,
        "sampling_ratio": case.ratio,
    }
    known_attributes(node, list(numbers))
    for name, value in numbers.items():
        expect_kind(node, name, "FLOAT" if name == "spatial_scale" else "INT", " The suffix in g.op is the type.")
        got = nodes.attributes(node)[name]
        if abs(got - value) > 1e-6:
            cause = " pooled_height and pooled_width are swapped." if got == {**numbers, **_swap(case)}[name] else ""
            cause = (
                " The node is for a kernel of torchvision's operator: pass it on unchanged."
                if (name == "sampling_ratio" and value < 0)
                else cause
            )
            raise WrongAnswer(f"{name} is {got:.6g}, expected {value}.{cause}")
    expect_declared(model, 0, case.dtype, ["k", case.channels, case.height, case.width])
    graphs.expect_valid(model)


def _swap(case: Align) -> dict[str, int]:
    return {"pooled_height": case.width, "pooled_width": case.height}


def expect_two_inputs(node: onnx.NodeProto, names: list[str]) -> None:
    """Demand these inputs of the node, in this order."""
    found = list(node.input)
    if found == names:
        return
    cause = ""
    if found == names[::-1]:
        cause = " They are swapped."
    elif len(found) > len(names) and found[: len(names)] == names:
        cause = ' Numbers came as inputs: with the letter "v" a number becomes a tensor of the graph, not an attribute.'
    raise WrongAnswer(f"The node's inputs are {found}, expected {names}.{cause}")


def every_channel(case: Align, scale: float, image: np.ndarray, rois: np.ndarray, shift: float = 0.5) -> np.ndarray:
    """roi_align with aligned=True in float64, for boxes inside the image.

    Args:
        image: (N, channels, H, W).
        rois: (K, 5): image, x1, y1, x2, y2.
        shift: how far pixel centres are from the corner of a pixel.

    Returns:
        (K, channels, height, width) of the case.
    """
    result = np.empty((len(rois), image.shape[1], case.height, case.width))
    for k, box in enumerate(rois.astype(np.float64)):
        x1, y1, x2, y2 = box[1:] * scale - shift
        places = []
        for start, end, bins, length in ((y1, y2, case.height, image.shape[2]), (x1, x2, case.width, image.shape[3])):
            samples = case.ratio if case.ratio > 0 else int(np.ceil((end - start) / bins))
            at = start + (np.arange(bins * samples) + 0.5) * (end - start) / (bins * samples)
            places.append((np.clip(at, 0, length - 1), samples))
        (rows, down), (columns, across) = places
        for channel in range(image.shape[1]):
            source = image[int(box[0]), channel].astype(np.float64)
            found = bilinear(source, rows[:, None], columns[None, :])
            result[k, channel] = found.reshape(case.height, down, case.width, across).mean((1, 3))
    return result


def choose(case: Align, aligned: np.ndarray, order: str = "") -> np.ndarray:
    """The channel of each bin, in the operator's order or in a wrong one."""
    result = np.empty((len(aligned), case.channels, case.height, case.width))
    for c, i, j in np.ndindex(result.shape[1:]):
        channel = {
            "": (c * case.height + i) * case.width + j,
            "bins first": (i * case.width + j) * case.channels + c,
            "columns first": (c * case.width + j) * case.height + i,
            "one channel": c * case.height * case.width,
        }[order]
        result[:, c, i, j] = aligned[:, channel, i, j]
    return result


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


# --- spmm ----------------------------------------------------------------------------------------------------------

SPMM_OP = Operator("oplab_sparse::spmm_sum", ("rowptr", "col", "value", "mat"), "", causes=_MISUSES)
CACHES = ("row", "colptr", "csr2csc")


@dataclass(frozen=True)
class Product:
    """One export of ``spmm``: whether the entries have values, and which caches of the derivative are given."""

    opset: int
    value: bool
    caches: tuple[str, ...] = ()
    dtype: str = "float32"

    @property
    def names(self) -> list[str]:
        order = ["row", "rowptr", "col", "value", "colptr", "csr2csc", "mat"]
        return [
            name for name in order if name in ("rowptr", "col", "mat", *self.caches) or name == "value" and self.value
        ]

    @property
    def read(self) -> list[str]:
        """The inputs that the product depends on: the exporter drops the others from the graph."""
        return [name for name in self.names if name not in CACHES]

    @property
    def title(self) -> str:
        kind = f", {self.dtype}" if self.dtype != "float32" else ""
        return f"opset {self.opset}, spmm_sum({', '.join(self.names)}){kind}"


SPMM = [
    Product(13, value=True),
    Product(13, value=False),
    Product(20, value=True, caches=CACHES),
    Product(9, value=False, caches=("row",)),
    Product(17, value=True, caches=("csr2csc",), dtype="float64"),
]
LAYERS = "two layers in one model, one with constant values, the other without"


def sparse(rng: np.random.Generator, case: Product, rows: int, columns: int, width: int) -> dict[str, np.ndarray]:
    """A matrix in CSR form with empty rows, its caches, and a dense matrix."""
    counts = rng.permutation(np.arange(rows) % 4)
    col = rng.integers(0, columns, size=counts.sum())
    made = {
        "row": np.repeat(np.arange(rows), counts),
        "rowptr": np.concatenate([[0], np.cumsum(counts)]),
        "col": col,
        "value": rng.uniform(1.5, 3, size=len(col)).astype(case.dtype),
        "colptr": np.concatenate([[0], np.cumsum(np.bincount(col, minlength=columns))]),
        "csr2csc": np.argsort(col, kind="stable"),
        "mat": rng.normal(size=(columns, width)).astype(case.dtype),
    }
    return {name: made[name] for name in case.names}


def collect_spmm(c: Collect) -> None:
    import torch

    import oplab.ops.sparse  # noqa: F401  registers the operator

    product = torch.ops.oplab_sparse.spmm_sum
    register(c, "spmm", SPMM_OP)

    def call(**given):
        return product(*[given.get(name) for name in ("row", "rowptr", "col", "value", "colptr", "csr2csc", "mat")])

    for case in SPMM:
        inputs = sparse(c.rng, case, 5, 6, 3)
        exporting.record(c, case.title, by_name(call, inputs), inputs, case.opset, axes=spmm_axes(inputs))
    feeds, values = two_layers(c.rng)
    fixed = torch.from_numpy(values)

    def layers(rowptr, col, mat):
        return call(rowptr=rowptr, col=col, value=fixed, mat=mat), call(rowptr=rowptr, col=col, mat=mat + 1)

    exporting.record(c, LAYERS, layers, feeds, 13, outputs=TWO_OUTPUTS, axes={"mat": {1: "n"}})


def spmm_axes(names: Iterable[str]) -> dict[str, dict[int, str]]:
    sizes = {"row": "e", "rowptr": "m1", "col": "e", "value": "e", "colptr": "k1", "csr2csc": "e"}
    return {name: {0: "k", 1: "n"} if name == "mat" else {0: sizes[name]} for name in names}


def two_layers(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The inputs of a model with two products, and the constant values of the first."""
    made = sparse(rng, Product(13, value=True), 6, 5, 2)
    value = made.pop("value")
    return made, value


def judge_spmm(v: Judge) -> None:
    for case in SPMM:
        sparse(v.rng, case, 5, 6, 3)
    feeds, values = two_layers(v.rng)
    models: dict[str, onnx.ModelProto] = {}
    with v.require("one oplab::SpMM, each input in its own place"):
        for case in SPMM:
            with about(case.title):
                models[case.title] = model = _exported(v, SPMM_OP, case.title, case.opset)
                node = nodes.only_node(model, "oplab::SpMM")
                expect_spmm_inputs(model, node, case)
                graphs.expect_inputs(model, case.read)
                nodes.expect_alone(model, "oplab::SpMM")
                expect_declared(model, 0, case.dtype, [None, "n"])
                graphs.expect_valid(model)
        expect_only(v, SPMM_OP)
        with about(LAYERS):
            models[LAYERS] = model = _exported(v, replace(SPMM_OP, outputs=TWO_OUTPUTS), LAYERS, 13)
            found = [list(node.input) for node in model.graph.node if node.op_type == "SpMM"]
            given = [[bool(name) for name in inputs] for inputs in found]
            if given != [[True] * 4, [True, True, False, True]]:
                raise WrongAnswer(
                    f"the nodes' inputs are {found}; expected are four inputs, then four of which value has the empty name. "
                    "Whether an input is given is decided for each call, and a constant is given."
                )
            expect_declared(model, 0, "float32", [6, "n"])
            expect_declared(model, 1, "float32", [6, "n"])
    with v.check("computes the product, at sizes that were not exported"):
        for case in SPMM:
            for rows, columns, width in ((9, 4, 5), (1, 3, 1)):
                fresh = sparse(v.rng, case, rows, columns, width)
                with about(case.title):
                    feed = {name: fresh[name] for name in case.read}
                    (got,) = run_custom(models[case.title], "SpMM", spmm_by_hand, feed)
                    args = [fresh.get(name) for name in ("rowptr", "col", "value", "mat")]
                    expect_close(got, spmm_by_hand(*args), name=f"the product of {rows} x {columns}")
        with about(LAYERS):
            first, second = run_custom(models[LAYERS], "SpMM", spmm_by_hand, feeds)
            pointers, col, mat = feeds["rowptr"], feeds["col"], feeds["mat"]
            expect_close(first, spmm_by_hand(pointers, col, values, mat), name="the first layer")
            expect_close(second, spmm_by_hand(pointers, col, None, mat + 1), name="the second layer")


def expect_spmm_inputs(model: onnx.ModelProto, node: onnx.NodeProto, case: Product) -> None:
    """rowptr, col, value or the empty name, mat; no attributes."""
    if node.attribute:
        raise WrongAnswer(f"oplab::SpMM has no attributes, the node has {node.attribute[0].name}.")
    inputs = list(node.input)
    expected = ["rowptr", "col", "value" if case.value else "", "mat"]
    if inputs == expected:
        return
    makers = {output: made.op_type for made in model.graph.node for output in made.output}
    extra = [name for name in inputs if name in CACHES]
    cause = ""
    if extra:
        cause = f" {extra[0]} is for the derivative only: the product does not depend on it."
    elif len(inputs) > len(expected):
        cause = " The node has four inputs: row, colptr and csr2csc are for the derivative only."
    elif not case.value and inputs == ["rowptr", "col", "mat"]:
        cause = (
            " value was left out, so mat moved into its place. Only at the end of the list may an input be left out; before others it "
            'keeps its place with the empty name "".'
        )
    elif not case.value and inputs == ["rowptr", "col", "mat", ""]:
        cause = " The empty name is in the place of mat: value is the third input."
    elif not case.value and any(name in makers for name in inputs):
        made = next(name for name in inputs if name in makers)
        cause = f" {made} is made by the node {makers[made]}: an optional input that is not given must be missing in ONNX too."
    elif any(name in makers for name in inputs):
        made = next(name for name in inputs if name in makers)
        cause = f" {made} is made by the node {makers[made]}: pass on the values that the symbolic function is given."
    elif case.value and "value" not in inputs:
        cause = " value is given in PyTorch and lost in ONNX."
    elif sorted(inputs) == sorted(expected):
        cause = " The order is rowptr, col, value, mat."
    raise WrongAnswer(f"The node's inputs are {inputs}, expected {expected}.{cause}")


def spmm_by_hand(rowptr: np.ndarray, col: np.ndarray, value: np.ndarray | None, mat: np.ndarray) -> np.ndarray:
    """The product of a matrix in CSR form and a dense one, in the dtype of ``mat``."""
    dense = np.zeros((len(rowptr) - 1, len(mat)))
    np.add.at(dense, (np.repeat(np.arange(len(rowptr) - 1), np.diff(rowptr)), col), 1.0 if value is None else value)
    return (dense @ mat).astype(mat.dtype)


# --- ps_roi_pool ---------------------------------------------------------------------------------------------------

PS_POOL = replace(PS_ALIGN, name="torchvision::ps_roi_pool")
POOL_SHAPES = [(2, 3, 2), (3, 3, 1), (4, 2, 3)]  # bins down, bins across, channels of the result; one is square


def pool_numbers(rng: np.random.Generator) -> list[tuple[float, int, int, int]]:
    """For each export a scale with digits that are easily lost, and sizes that always differ."""
    # One from each range: two that are almost equal would look like one that was rounded. Between two hundredths: none is one.
    hundredths = rng.integers((21, 45, 69), (41, 65, 89)) + rng.uniform(0.1, 0.9, 3)
    scales = [round(float(scale), 6) for scale in hundredths / 100]
    return [(scale, *shape) for scale, shape in zip(scales, POOL_SHAPES, strict=True)]


def pool_inputs(rng: np.random.Generator, scale: float, channels: int, count: int) -> dict[str, np.ndarray]:
    """Two images of 11 x 13, and boxes of 2 to 6 pixels inside them."""
    start, extent = rng.uniform(0, 4, size=(count, 2)), rng.uniform(2, 6, size=(count, 2))
    boxes = np.concatenate([(np.arange(count)[:, None] + 1) % 2, start / scale, (start + extent) / scale], axis=1)
    return {
        "image": rng.normal(size=(2, channels, 11, 13)).astype(np.float32),
        "boxes": boxes.astype(np.float32).reshape(count, 5),
    }


def pool_title(scale: float, height: int, width: int) -> str:
    return f"spatial_scale {scale}, {height} x {width} bins"


def collect_ps_roi_pool(c: Collect) -> None:
    import torch
    import torchvision

    class Pool(torch.nn.Module):
        def __init__(self, scale: float, height: int, width: int):
            super().__init__()
            self._numbers = scale, height, width  # the call has them; where the module keeps them is its own affair

        def forward(self, features: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:  # not the names of the inputs
            scale, height, width = self._numbers
            return torchvision.ops.ps_roi_pool(features, rois, (height, width), scale)

    answer, before = c.function("ps_roi_pool"), exporting.registrations()
    for number, (scale, height, width, channels) in enumerate(pool_numbers(c.rng)):
        path, title = c.scratch / f"{number}.onnx", pool_title(scale, height, width)
        arrays = pool_inputs(c.rng, scale, channels * height * width, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = tuple(torch.from_numpy(array) for array in arrays.values())
            kept, module = [x.clone() for x in given], Pool(scale, height, width).eval()
            c.attempt(title, answer, module, given, path)
        c.file(title, path)
        c.value(f"{title}: kept", [all(map(torch.equal, kept, given)), not module.training])
    record_registered(c, before, PS_POOL)


def judge_ps_roi_pool(v: Judge) -> None:
    numbers = pool_numbers(v.rng)
    for scale, height, width, channels in numbers:
        pool_inputs(v.rng, scale, channels * height * width, 3)
    models: dict[str, onnx.ModelProto] = {}
    with v.require("one oplab::PSRoIPool with two inputs"):
        for scale, height, width, _ in numbers:
            title = pool_title(scale, height, width)
            with about(title):
                error = v.error(title)
                if error and error.type == "ConversionError":
                    raise WrongAnswer(
                        f"{title}: the dynamo path has no mapping for {PS_POOL.name}, and it does not use yours: "
                        "a registered symbolic function serves the TorchScript path, dynamo=False."
                    )
                if error and error.type == "UnsupportedOperatorError":
                    raise no_symbolic(title, PS_POOL.name, [str(entry) for entry in v.value("registered")], 13)
                if error:  # the answer itself exports: it may have stopped before it registered anything
                    raise explained(error, title, PS_POOL.causes, symbolic_causes())
                models[title] = model = translated(v, PS_POOL, title, 13)
                node = nodes.only_node(model, "oplab::PSRoIPool")
                graphs.expect_inputs(model, ["image", "boxes"])
                expect_two_inputs(node, ["image", "boxes"])
                if len(node.output) > 1:
                    raise WrongAnswer(
                        f"The node has {len(node.output)} outputs, expected 1: no kernel computes channel_mapping, so the "
                        "symbolic function returns None for it."
                    )
                nodes.expect_alone(model, "oplab::PSRoIPool")
        expect_only(v, PS_POOL)
    with v.check("spatial_scale is a float, pooled_shape are ints, with the module's values"):
        for scale, height, width, _ in numbers:
            title = pool_title(scale, height, width)
            with about(title):
                expect_pool_attributes(nodes.only_node(models[title], "oplab::PSRoIPool"), scale, [height, width])
    with v.require("for opset 13 and version 2 of the domain oplab, and any number of boxes"):
        for scale, height, width, channels in numbers:
            title = pool_title(scale, height, width)
            model = models[title]
            with about(title):
                expect_kept(v, title)
                graphs.expect_opset(model, 13)
                if graphs.opset(model, "oplab") != 2:
                    raise WrongAnswer(
                        f"The model imports version {graphs.opset(model, 'oplab')} of the domain oplab, expected 2. The exporter "
                        "writes 1 unless custom_opsets names the domain of the node."
                    )
                graphs.expect_dynamic(model, "boxes", [0])
                expect_sizes(model, channels * height * width)
                expect_declared(model, 0, "float32", ["k", channels, height, width])
                graphs.expect_valid(model)
    with v.check("computes the averages with a kernel in NumPy, for other boxes"):
        for scale, height, width, channels in numbers:
            title = pool_title(scale, height, width)
            for count in (8, 0):
                feeds = pool_inputs(v.rng, scale, channels * height * width, count)
                with about(title):
                    (got,) = run_custom(models[title], "PSRoIPool", pool_by_hand, feeds)
                    right = pool_by_hand(feeds["image"], feeds["boxes"], scale, [height, width])
                    expect_close(got, right, name=f"the averages of {count} boxes")


def expect_kept(v: Judge, title: str) -> None:
    """Demand that the export has changed neither the module nor its inputs."""
    kept = v.value(f"{title}: kept")
    if kept != [True, True]:
        what = "the example inputs have" if not kept[0] else "module.training has"
        raise WrongAnswer(
            f"{what} other values after the call: an export leaves the module and its inputs as they are."
        )


def expect_sizes(model: onnx.ModelProto, channels: int) -> None:
    """Demand that no other size than the number of boxes is dynamic."""
    declared = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    found = {name: [dim.dim_param or dim.dim_value for dim in dims] for name, dims in declared.items()}
    if found != {"image": [2, channels, 11, 13], "boxes": ["k", 5]}:
        raise WrongAnswer(f"The inputs are declared as {found}: only the number of boxes is dynamic, with the name k.")


def expect_pool_attributes(node: onnx.NodeProto, scale: float, shape: list[int]) -> None:
    """spatial_scale as FLOAT, pooled_shape as INTS."""
    known_attributes(node, ["spatial_scale", "pooled_shape"])
    expect_kind(
        node, "spatial_scale", "FLOAT", ' The suffix in g.op is the type: spatial_scale_f, with "f" in parse_args.'
    )
    expect_kind(node, "pooled_shape", "INTS", " A list of Python ints with the suffix _i becomes INTS.")
    found = nodes.attributes(node)
    own = " Every module has its own numbers: take the ones that the symbolic function receives."
    if abs(found["spatial_scale"] - scale) > 1e-6:
        cause = own
        if found["spatial_scale"] == 0:
            cause = ' The fraction is cut off: the letter "i" in parse_args silently turns a float into an int.'
        elif abs(found["spatial_scale"] - scale) < 5e-3:
            cause = " It is rounded, or has passed through a type that is shorter than float32."
        elif abs(found["spatial_scale"] * scale - 1) < 1e-5:
            cause = " It is the inverse of the scale."
        raise WrongAnswer(f"spatial_scale is {found['spatial_scale']:.7g}, expected {scale}.{cause}")
    if found["pooled_shape"] != shape:
        cause = " Height and width are swapped." if found["pooled_shape"] == shape[::-1] else own
        raise WrongAnswer(f"pooled_shape is {found['pooled_shape']}, expected {shape}.{cause}")


def pool_by_hand(image: np.ndarray, boxes: np.ndarray, spatial_scale: float, pooled_shape: Sequence[int]) -> np.ndarray:
    """Position-sensitive average pooling as torchvision computes it: boxes are rounded to pixels (R-FCN, 2016).

    Args:
        image: float32 (N, C * h * w, H, W).
        boxes: float32 (K, 5): image, x1, y1, x2, y2.

    Returns:
        float32 (K, C, h, w).
    """
    height, width = (int(n) for n in pooled_shape)
    result = np.zeros((len(boxes), image.shape[1] // (height * width), height, width), np.float32)
    corners = boxes[:, 1:] * np.float32(spatial_scale)
    rounded = (np.sign(corners) * np.floor(np.abs(corners) + np.float32(0.5))).astype(
        int
    )  # halves away from zero, as C does

    def pieces(start: int, end: int, bins: int, length: int) -> list[slice]:
        size = np.float32(max(end - start, 1)) / np.float32(bins)
        low = np.floor(np.arange(bins, dtype=np.float32) * size).astype(int) + start
        high = np.ceil(np.arange(1, bins + 1, dtype=np.float32) * size).astype(int) + start
        return [slice(a, b) for a, b in zip(np.clip(low, 0, length), np.clip(high, 0, length), strict=True)]

    for k, (x1, y1, x2, y2) in enumerate(rounded):
        rows, columns = pieces(y1, y2, height, image.shape[2]), pieces(x1, x2, width, image.shape[3])
        for c, i, j in np.ndindex(result.shape[1:]):
            part = image[int(boxes[k, 0]), (c * height + i) * width + j, rows[i], columns[j]]
            result[k, c, i, j] = part.mean() if part.size else 0
    return result
