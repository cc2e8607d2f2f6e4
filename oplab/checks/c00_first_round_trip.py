"""Checks of chapter 00: an exported file, a comparison that can fail, and a model in one file.

The networks and models that the exercises work on are made from the generator, in both halves alike. What the learner's code wrote is
run at sizes that it never saw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from oplab.checks import exporting, graphs
from oplab.checks.evidence import Collect, shown
from oplab.checks.judge import Judge
from oplab.onnxtools.subgraphs import every_node
from oplab.parity.arrays import TOLERANCE, WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import torch

F32, F64 = TensorProto.FLOAT, TensorProto.DOUBLE

# run ---------------------------------------------------------------------------------------------------------------------------

FILES_TO_RUN = {"scale.onnx": ("Mul", (2, 3)), "shift.onnx": ("Add", ())}


def one_node(op: str, shape: tuple[int, ...], rng: np.random.Generator) -> tuple[onnx.ModelProto, np.ndarray]:
    """A model of one node with a constant from ``rng``, and an input for it."""
    model = _model([_node(op, ["input", "c"])], {"c": np.asarray(rng.uniform(2, 3, shape), np.float32)}, "input")
    return model, np.asarray(rng.uniform(1, 2, shape), np.float32)


def collect_run(c: Collect) -> None:
    function = c.function("run")
    for file, (op, shape) in FILES_TO_RUN.items():
        model, x = one_node(op, shape, c.rng)
        path = c.scratch / file
        onnx.save(model, path, save_as_external_data=True, location=f"{file}.data", size_threshold=0)
        c.value(file, c.attempt(file, function, path, x))


def judge_run(v: Judge) -> None:
    for file, (op, shape) in FILES_TO_RUN.items():
        model, x = one_node(op, shape, v.rng)
        with v.check(f"{file}: the output of its {op} node"):
            got = v.value(file)
            if isinstance(got, list) and len(got) == 1:
                raise WrongAnswer(
                    f"{file}: expected the output, got a list with it. `session.run` returns a list with one array for each output: "
                    "take the first."
                )
            got = v.array(file)
            expect_close(got, graphs.run(model, {"input": x})[0], name=f"the output of {file}")


# export ------------------------------------------------------------------------------------------------------------------------

# For each network: the example that the learner's code gets, and the inputs that judge its file.
SHAPES = {
    "sharpen": ((1, 3, 20, 20), [(2, 3, 9, 13), (1, 3, 31, 7)]),
    "double": ((2, 1, 14, 10), [(1, 1, 8, 15), (3, 1, 11, 6)]),
}


def network(kind: str, rng: np.random.Generator) -> torch.nn.Module:
    """A small network with weights from ``rng``, whose layers are in train mode.

    ``sharpen`` keeps the size and has the two layers that train mode changes; ``double`` gives twice the height and width, and
    computes with the sizes of its input: a graph that was made for one size has that size in it. It says itself that it is in eval mode.
    """
    import torch
    from torch import nn

    class Sharpen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.norm, self.drop = nn.Conv2d(3, 16, 5, padding=2), nn.BatchNorm2d(16), nn.Dropout(0.5)
            self.conv2 = nn.Conv2d(16, 3, 3, padding=1)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return image + self.conv2(self.drop(torch.relu(self.norm(self.conv1(image)))))

    class Double(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.drop = nn.Conv2d(1, 4, 3, padding=1), nn.Dropout(0.5)

        def forward(self, photo: torch.Tensor) -> torch.Tensor:
            batch, _, height, width = photo.shape
            pixels = self.drop(self.conv(photo)).reshape(batch, 4, height * width)
            even = (pixels - pixels.mean(2, keepdim=True)).reshape(batch, 4, height, width)
            return nn.functional.pixel_shuffle(torch.tanh(even), 2)

    model = Sharpen() if kind == "sharpen" else Double()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                low, high = (0.5, 1.5) if name.endswith("running_var") else (-0.4, 0.4)
                tensor.copy_(torch.from_numpy(rng.uniform(low, high, tuple(tensor.shape)).astype(np.float32)))
    model.train().training = kind == "sharpen"
    return model


def image(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, 1, shape).astype(np.float32)


def collect_export(c: Collect) -> None:
    import torch

    function = c.function("export")
    for kind, (shape, _) in SHAPES.items():
        model, example = network(kind, c.rng), torch.from_numpy(image(shape, c.rng))
        exporting.record_export(c, f"the exported {kind!r}", function, model, example)


def judge_export(v: Judge) -> None:
    import torch

    models = {}
    for kind, (shape, _) in SHAPES.items():
        models[kind] = network(kind, v.rng)
        image(shape, v.rng)  # the example: drawn so that both halves stay in step
    for kind, (example, shapes) in SHAPES.items():
        net = models[kind].eval()
        with v.require(f"{kind}: names"):
            model = v.model(f"the exported {kind!r}")
            graphs.expect_inputs(model, ["input"])
            graphs.expect_outputs(model, ["output"])
            if len(model.graph.input) > 1:
                raise WrongAnswer("The weights are inputs of the graph, too: leave out keep_initializers_as_inputs.")
        with v.check(f"{kind}: batch, height and width are dynamic"):
            graphs.expect_dynamic(model, "input", [0, 2, 3])
            expect_own_names(model, [0, 2, 3])
        with v.require(f"{kind}: for inference"):
            expect_inference(model)
            graphs.expect_valid(model)
        for shape in shapes:
            with v.check(f"{kind}: matches PyTorch at {list(shape)}"):
                x = image(shape, v.rng)
                with torch.no_grad():
                    expected = net(torch.from_numpy(x)).numpy()
                try:
                    (got,) = graphs.run(model, {"input": x})
                    expect_close(got, expected, name=f"the output for an input of {list(shape)}")
                except WrongAnswer as error:
                    cause = weights_cause(model, net) or _size_cause(model, example)
                    raise WrongAnswer(f"{error}{cause}") from None


def expect_own_names(model: onnx.ModelProto, axes: list[int]) -> None:
    """Demand that no two of these axes of the first input share a name, which says that their sizes are always equal, and that each is
    a name: a formula such as ``2*half`` says that not every size fits.
    """
    dims = model.graph.input[0].type.tensor_type.shape.dim
    names = [dims[axis].dim_param for axis in axes]
    formula = next((name for name in names if "*" in name), "")
    if formula:
        raise WrongAnswer(
            f"The dynamic axes of 'input' are named {names}. {formula!r} is a formula, which promises some sizes only; the file has to "
            "take any height and width."
        )
    if len(set(names) - {""}) < len([name for name in names if name]):
        raise WrongAnswer(
            f"The dynamic axes of 'input' are named {names}. Axes of one name always have the same size, so this file "
            "promises square images only: give each axis its own name."
        )


def expect_inference(model: onnx.ModelProto) -> None:
    for node in every_node(model):
        training = any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
        if node.op_type == "Dropout" or (node.op_type == "BatchNormalization" and training):
            raise WrongAnswer(
                f"The graph has a {node.op_type} node for training: the model was exported in train mode. "
                "The file is for inference, so the model has to be in eval mode."
            )


def weights_cause(model: onnx.ModelProto, net: torch.nn.Module) -> str:
    """A sentence when the file does not hold the last convolution's weights: it is another model then.

    The last convolution has no norm after it that an exporter could fold into its weights.
    """
    wanted = [tensor.detach().numpy() for tensor in net.parameters()][-2]
    same = [numpy_helper.to_array(t) for t in graphs.tensors(model) if tuple(t.dims) == wanted.shape]
    if any(np.array_equal(array, wanted) for array in same):
        return ""
    sentence = " The weights in the file are not those of the model that was given."
    rtol, atol = TOLERANCE["float16"]  # also of bfloat16, whose rounding is 2^-9 of the value at most
    close = any(np.allclose(array.astype(np.float32), wanted, rtol=rtol, atol=atol) for array in same)
    return sentence + " They were rounded on the way, for example to half precision." * close


def _size_cause(model: onnx.ModelProto, example: tuple[int, ...]) -> str:
    """A sentence when the graph holds the example's number of pixels: no other input has as many."""
    pixels = example[2] * example[3]
    numbers = (numpy_helper.to_array(t) for t in graphs.tensors(model) if t.data_type == TensorProto.INT64)
    if not any((array == pixels).any() for array in numbers):
        return ""
    return f" The header promises this size, but a size of the example is a constant in the graph: {pixels} pixels, as {list(example)} has."


# compare -----------------------------------------------------------------------------------------------------------------------


def pair(
    kind: str, rng: np.random.Generator
) -> tuple[Callable[[torch.Tensor], torch.Tensor], onnx.ModelProto, np.ndarray]:
    """A PyTorch function, an ONNX model that is like it or nearly so, and an input on which they are to be compared."""
    import torch

    x = rng.uniform(1, 2, (6, 8)).astype(np.float32)
    # One sign for each column: a sum close to 0 would be right in no digit, and the relative error of the rounding a large one.
    w = (rng.uniform(0.2, 0.9, (8, 5)) * rng.choice([-1, 1], 5)).astype(np.float32)
    weight, name = torch.from_numpy(w.copy()), "pixels"

    def linear(t: torch.Tensor) -> torch.Tensor:
        return t @ weight

    def constant(op: str, value: np.ndarray | np.float32) -> onnx.ModelProto:
        return _model([_node(op, [name, "c"])], {"c": value}, name)

    products = {"equal": w, "not contiguous": w, "weights 0.001 off": w + np.float32(1e-3), OTHER_MODEL: -w}
    if kind in products:
        layout = np.asfortranarray if kind == "not contiguous" else np.asarray
        return linear, _model([_node("MatMul", [name, "w"])], {"w": products[kind]}, name), layout(x)
    if kind == "two elements off":
        shift = np.zeros((60, 80), np.float32)
        shift[rng.integers(30), rng.integers(80)] = -0.01
        shift[rng.integers(30, 60), rng.integers(80)] = 0.005  # the largest difference with its sign
        big = rng.uniform(-1, 1, (60, 80)).astype(np.float32)
        return lambda t: t * 1, constant("Add", shift), big
    if kind == "always too low":
        return lambda t: t + 1, constant("Add", np.float32(0.98)), x
    if kind == "rounding of large values":
        return lambda t: t * 1000, constant("Mul", np.float32(1000.03)), x
    # Tolerances. Each error is far from the limit, as float32 counts: half an ulp of 0.1 is 4e-9, of 2000 is 6e-5 and of 0.02 1e-9.
    if kind == "both parts of the tolerance":  # 1e-5 + 1e-4 * 0.1 = 2e-5
        near = rng.uniform(0.099, 0.101, (6, 8)).astype(np.float32)
        return lambda t: t * 1, constant("Add", np.float32(1.6e-5)), near
    if kind == "exactly the tolerance":  # of 0, so that the sum of both parts is not rounded
        same = [_node("Sub", [name, name], "zero"), _node("Add", ["zero", "c"])]
        return lambda t: t - t, _model(same, {"c": np.float32(1e-5)}, name), x
    if kind == "0.00003 off near zero":  # at most 1.2e-5 is allowed
        near = rng.uniform(0.01, 0.02, (6, 8)).astype(np.float32)
        return lambda t: t * 1, constant("Add", np.float32(3e-5)), near
    if kind == "0.0003 of large values":
        return lambda t: t * 1000, constant("Mul", np.float32(1000.3)), x
    if kind == "a small value among large ones":
        x[2, 3] = 0.01
        shift = np.zeros((6, 8), np.float32)
        shift[2, 3] = 1e-3  # 100 times what is allowed there, and a hundredth of what is at its neighbours
        x *= np.where(shift > 0, np.float32(1), np.float32(1000))
        return lambda t: t * 1, constant("Add", shift), x
    wide = {  # float64: the first error is a third of a float32's ulp, the second is above 1e-5 + 1e-4 * |torch| by 1 in 20000
        "float64 in both": (1e6, 1e6, 0.02),
        "just above the tolerance": (1, 1 + 1.00005e-4, 1.00005e-5),
    }
    if kind in wide:
        factor, *given = wide[kind]
        nodes = [_node("Cast", [name], "wide", to=F64), _node("Mul", ["wide", "c"], "z"), _node("Add", ["z", "d"])]
        return (
            lambda t: t.double() * factor,
            _model(nodes, dict(zip("cd", map(np.float64, given), strict=True)), name, F64),
            x,
        )
    if kind == "computed in place":
        nodes = [_node("Abs", [name], "a"), _node("Add", ["a", "c"])]
        return torch.relu_, _model(nodes, {"c": np.float32(1e-6)}, name), x - np.float32(1.5)
    if kind == "one row less":
        same = np.repeat(x[:1], 6, axis=0)
        nodes = [_node("MatMul", [name, "w"], "all"), _node("ReduceMean", ["all", "axes"], keepdims=1)]
        return linear, _model(nodes, {"w": w, "axes": np.array([0], np.int64)}, name), same
    if kind == "one axis less":
        nodes = [_node("Squeeze", [name, "axes"])]
        return lambda t: t * 1, _model(nodes, {"axes": np.array([0], np.int64)}, name), x[:1]
    if kind == "double instead of float":
        nodes = [_node("Add", [name, name], "f"), _node("Cast", ["f"], to=F64)]
        return lambda t: t * 2, _model(nodes, {}, name, F64), x
    x[2, 3] = -1.0  # below zero: the square root is NaN there, and the logarithm too
    if kind == "NaN in both":
        return torch.sqrt, _model([_node("Sqrt", [name])], {}, name), x
    if kind == "NaN in ONNX only":
        return lambda t: torch.sqrt(torch.relu(t)), _model([_node("Sqrt", [name])], {}, name), x
    if kind == "NaN in PyTorch only":
        return torch.sqrt, _model([_node("Relu", [name], "r"), _node("Sqrt", ["r"])], {}, name), x
    assert kind == "infinity in both"
    x[2, 3] = 0.0
    return lambda t: 1 / t, _model([_node("Reciprocal", [name])], {}, name), x


OTHER_MODEL = "another model in the first one's file"  # its path is that of the pair "equal"
# What each answer that is wrong about a pair most likely does.
CAUSES = {
    "equal": "Its input is named 'pixels': `session.get_inputs()[0].name` tells the name of any file's input.",
    "weights 0.001 off": "Is the file loaded and run, and the PyTorch model too? Is the tolerance 1e-5, not more?",
    "not contiguous": "The input is a transposed tensor.",
    "rounding of large values": "The tolerance has a part that grows with the value, 1e-4 * |torch|.",
    "two elements off": "Two elements of 4800 are wrong: a mean hides it, the largest difference does not.",
    "always too low": "Every ONNX value is below the PyTorch one: take the absolute value before the maximum.",
    "both parts of the tolerance": "The two parts of the tolerance are added: here 1e-5 + 1e-4 * 0.1 = 2e-5 is allowed.",
    "exactly the tolerance": "PyTorch gives 0 and the file 1e-5: the tolerance itself is allowed.",
    "0.00003 off near zero": "Is the tolerance 1e-5, not more? The values are small, so its other part hardly counts.",
    "0.0003 of large values": "Is the part that grows with the value 1e-4 * |torch|, not more?",
    "a small value among large ones": (
        "The small value is wrong by a tenth. Each element has its own tolerance, not that of the largest."
    ),
    "one row less": "NumPy broadcasts [1, 5] to [6, 5] and finds every element equal: compare the shapes first.",
    "one axis less": "NumPy broadcasts [8] to [1, 8] and finds every element equal: compare the shapes first.",
    "double instead of float": "The values are equal but the file gives float64: compare the dtypes too.",
    "float64 in both": "Both give float64: compute the difference in float64; do not cast to float32.",
    "just above the tolerance": "The tolerance is 1e-5 + 1e-4 * |torch|: with |onnx|, which is larger here, these would agree.",
    "computed in place": "The model writes its result into its input, and the file has to read what was there: give the model a copy of x.",
    "NaN in both": "NaN in both places is not agreement: it is not known what either model meant. `equal_nan` is for other cases.",
    "NaN in ONNX only": "A NaN passes through many comparisons unseen: ask whether every value is finite.",
    "NaN in PyTorch only": "A NaN passes through many comparisons unseen: ask whether every value is finite.",
    "infinity in both": "infinity - infinity is NaN: ask whether every value is finite.",
    OTHER_MODEL: "The path held another model at an earlier call: load the file at each call.",
}


def collect_compare(c: Collect) -> None:
    import torch

    class Model(torch.nn.Module):
        def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]):
            super().__init__()
            self.function = function
            self.scale = torch.nn.Parameter(
                torch.ones(())
            )  # so that the output needs a gradient, as a real model's does

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.function(x)
            return y if y is x else y * self.scale

    function = c.function("compare")
    for number, kind in enumerate(CAUSES):
        torch_half, onnx_half, x = pair(kind, c.rng)
        path = c.scratch / f"{0 if kind == OTHER_MODEL else number}.onnx"
        path.write_bytes(onnx_half.SerializeToString())
        before = x.copy()
        c.value(kind, c.attempt(kind, function, Model(torch_half).eval(), path, torch.from_numpy(x)))
        c.value(f"{kind}: changed", before.tobytes() != x.tobytes())


def judge_compare(v: Judge) -> None:
    import torch

    for kind in CAUSES:
        torch_half, onnx_half, x = pair(kind, v.rng)
        expected = torch_half(torch.from_numpy(x.copy())).numpy()
        (actual,) = graphs.run(onnx_half, {"pixels": x})
        with v.check(kind):
            agrees, max_abs = answer(v, kind)
            if v.value(f"{kind}: changed"):
                raise WrongAnswer(
                    f"Pair {kind!r}: the input x was changed. The model computes in place: give it a copy, x.clone()."
                )
            expect_measured(kind, agrees, max_abs, actual, expected)


def expect_measured(kind: str, agrees: bool, max_abs: float, actual: np.ndarray, expected: np.ndarray) -> None:
    """Demand the right ``agrees`` and ``max_abs`` for the results of one pair. None is near the tolerance, see :func:`pair`."""
    same = actual.shape == expected.shape and actual.dtype == expected.dtype
    right, gap = False, np.array(math.inf)
    if same and np.isfinite(actual).all() and np.isfinite(expected).all():
        gap = actual.astype(np.float64) - expected.astype(np.float64)
        right = bool((np.abs(gap) <= 1e-5 + 1e-4 * np.abs(expected.astype(np.float64))).all())
    if agrees is not right:
        wanted = "agree" if right else "do not agree"
        raise WrongAnswer(f"Pair {kind!r}: these {wanted}, but you returned {agrees}. {CAUSES[kind]}")
    largest = float(np.abs(gap).max())
    if max_abs == largest:
        return
    if math.isinf(largest):
        raise WrongAnswer(
            f"Pair {kind!r}: the two cannot be compared, so max_abs is inf; your answer is {max_abs:.3g}."
        )
    # ORT and PyTorch may add in another order. The float64 pair has one product in both, which gives the same bits, and a sum and a
    # difference: an ulp of the largest value each.
    eps = 2e-6 if expected.dtype == np.float32 else 2 * np.finfo(np.float64).eps
    if not abs(max_abs - largest) <= eps * max(1.0, float(np.abs(expected).max())):
        # A wrong measure is seen at an earlier pair. Here numbers are large and often close to each other by chance.
        near = [words for words, of in MEASURES.items() if math.isclose(max_abs, of(gap, expected), rel_tol=1e-3)]
        cause = near[0] if len(near) == 1 and kind != OTHER_MODEL else CAUSES[kind]
        raise WrongAnswer(
            f"Pair {kind!r}: the largest difference is {largest:.3g}, your answer is {max_abs:.3g}. {cause}"
        )


# What a wrong max_abs is, by the sentence that is told.
MEASURES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "It is the largest difference with its sign: take the absolute value before the maximum.": lambda gap, _: gap.max(),
    "It is the mean of the differences, not the largest.": lambda gap, _: np.abs(gap).mean(),
    "It is the largest relative difference: max_abs is not divided by the value.": lambda gap, expected: np.abs(
        gap / expected
    ).max(),
}


def answer(v: Judge, kind: str) -> tuple[bool, float]:
    """The learner's ``(agrees, max_abs)`` for one pair."""
    value = v.value(kind)
    if type(value) is not list or [type(part) for part in value] not in ([bool, float], [bool, int]):
        came = " and ".join(map(shown, value)) if type(value) is list else shown(value)
        raise WrongAnswer(f"Pair {kind!r}: expected two results, agrees (a bool) and max_abs (one float), got {came}.")
    return value[0], float(value[1])


def _node(op: str, inputs: list[str], output: str = "y", **attributes: int) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [output], **attributes)


def _model(
    nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], name: str, output: int = F32, opset: int = 18
) -> onnx.ModelProto:
    ends = [[helper.make_tensor_value_info(*end, None)] for end in ((name, F32), ("y", output))]
    tensors = [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
    graph = helper.make_graph(nodes, "pair", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


# one_file ----------------------------------------------------------------------------------------------------------------------

# Two models, so that no name and no size can be written down: file name, channels, and the folder of the target.
FILES = (("net.onnx", 12, "release"), ("photo.v2.onnx", 7, "somewhere/else"))


def stored(channels: int, rng: np.random.Generator) -> onnx.ModelProto:
    """Two convolutions and a branch, as an exporter writes them: the weights are initialisers, the biases too small for a second file.

    The table of gains is float64 with values that float32 does not hold. Each branch has a table of its own, of the same name,
    and one of them has a branch in it, with a third one.
    """
    draw = lambda *shape: rng.normal(0, 0.3, shape).astype(np.float32)  # noqa: E731
    weights = {
        "conv1.weight": draw(channels, 3, 5, 5),
        "conv1.bias": draw(channels),
        "conv2.weight": draw(3, channels, 3, 3),
        "conv2.bias": draw(3),
        "gains": rng.uniform(0.5, 1.5, (3, 40)),
        "zero": np.float64(0),
    }

    def branch(name: str, nodes: Sequence[onnx.NodeProto], *tables: onnx.TensorProto) -> onnx.GraphProto:
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, F64, [3, 40])], tables)

    table, second, shift = (
        numpy_helper.from_array(rng.uniform(-1, 1, (40,)), name) for name in ("table", "table", "shift")
    )
    add = helper.make_node("Add", ["gains", "shift"], ["shifted"], "node_add")
    inner = (
        branch("shifted", [add], shift),
        branch("negated", [helper.make_node("Neg", ["gains"], ["negated"], "node_neg")]),
    )
    chosen = helper.make_node("If", ["positive"], ["bent"], "node_inner", then_branch=inner[0], else_branch=inner[1])
    taken = branch("scaled", [chosen, helper.make_node("Mul", ["bent", "table"], ["scaled"], "node_mul")], table)
    other = branch("turned", [helper.make_node("Div", ["gains", "table"], ["turned"], "node_div")], second)
    nodes = [
        helper.make_node("Conv", ["input", "conv1.weight", "conv1.bias"], ["a"], "node_conv2d", pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "node_relu"),
        helper.make_node("Conv", ["b", "conv2.weight", "conv2.bias"], ["c"], "node_conv2d_1", pads=[1, 1, 1, 1]),
        helper.make_node("ReduceSum", ["gains"], ["total"], "node_sum", keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"], "node_gt"),
        helper.make_node("If", ["positive"], ["chosen"], "node_cond", then_branch=taken, else_branch=other),
        helper.make_node("ReduceMean", ["chosen"], ["mean"], "node_mean", keepdims=0),
        helper.make_node("Cast", ["mean"], ["gain"], "node_cast", to=F32),
        helper.make_node("Mul", ["c", "gain"], ["output"], "node_mul_1"),
    ]
    ends = [[helper.make_tensor_value_info(name, F32, ["batch", 3, "height", "width"])] for name in ("input", "output")]
    constants = [numpy_helper.from_array(value, key) for key, value in weights.items()]
    graph = helper.make_graph(nodes, "main_graph", *ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _nodes(graph: onnx.GraphProto) -> dict[str, tuple]:
    """The nodes of a graph and of its bodies by name: operator, inputs, outputs, and the attributes that are not bodies."""
    found = {}
    for node in graph.node:
        plain = {a.name: helper.get_attribute_value(a) for a in node.attribute if not a.HasField("g")}
        found[node.name] = (node.op_type, list(node.input), list(node.output), plain)
        for attribute in node.attribute:
            found |= _nodes(attribute.g) if attribute.HasField("g") else {}
    return found


def collect_one_file(c: Collect) -> None:
    function = c.function("one_file")
    for name, channels, place in FILES:
        source, target = c.scratch / Path(name).stem / name, c.scratch / place / "one.onnx"
        source.parent.mkdir()
        target.parent.mkdir(parents=True)
        onnx.save(
            stored(channels, c.rng), source, save_as_external_data=True, location=f"{name}.data", size_threshold=256
        )
        before = {file.name: file.read_bytes() for file in source.parent.iterdir()}
        c.attempt(name, function, source, target)
        after = {file.name: file.read_bytes() for file in source.parent.iterdir() if file.is_file()}
        c.value(f"{name}, source", [key for key, data in before.items() if after.get(key) != data])
        c.value(f"{name}, added", sorted(str(key)[:100] for key in after.keys() - before.keys())[:8])
        c.file(name, target)


def judge_one_file(v: Judge) -> None:
    originals = {name: stored(channels, v.rng) for name, channels, _ in FILES}  # all first: both halves stay in step
    for name, wanted in originals.items():
        with v.require(f"{name}: complete in one file"):
            model = v.model(name)
            graphs.expect_inputs(model, ["input"])
            graphs.expect_outputs(model, ["output"])
        with v.check(f"{name}: the same graph"):
            if graphs.ops(model) != graphs.ops(wanted):
                raise WrongAnswer(
                    f"{name}: the source has the operators {dict(graphs.ops(wanted))}, the target {dict(graphs.ops(model))}."
                )
            graphs.expect_opset(model, 20)
            found, right = _nodes(model.graph), _nodes(wanted.graph)
            if found != right:
                node = next((key for key in right if found.get(key) != right[key]), "")
                raise WrongAnswer(
                    f"{name}: the node {node!r} was {right.get(node)}, it is {found.get(node, 'not there')} now. The graph has to stay as "
                    "it is, with its names."
                )
        with v.require(f"{name}: the same weights"):
            expect_same_weights(model, wanted)
        with v.check(f"{name}: runs"):
            graphs.expect_valid(model)
            feeds = {"input": image((2, 3, 11, 9), v.rng)}
            expect_close(graphs.run(model, feeds)[0], graphs.run(wanted, feeds)[0], name=f"the output of {name}")
        with v.check(f"{name}: the source is untouched"):
            changed = v.value(f"{name}, source")
            if changed:
                raise WrongAnswer(
                    f"{name}: the source has to stay as it is; {', '.join(map(str, changed))} was changed or deleted."
                )
            added = v.value(f"{name}, added")
            if added:
                raise WrongAnswer(
                    f"{name}: {', '.join(map(str, added))} was added next to the source. Its folder has to stay as it is."
                )


def _weights(model: onnx.ModelProto) -> dict[tuple[str, str], onnx.TensorProto]:
    """Each initialiser by the name of its graph and its own."""
    return {(graph.name, tensor.name): tensor for graph in graphs.graphs(model) for tensor in graph.initializer}


def expect_same_weights(model: onnx.ModelProto, wanted: onnx.ModelProto) -> None:
    """Demand the same initialisers, those of bodies included: names, shapes, dtypes and every bit."""
    found = _weights(model)
    for (body, name), tensor in _weights(wanted).items():
        if (body, name) not in found:
            shown = sorted(name for _, name in found) or "none"
            raise WrongAnswer(f"The initialiser {name!r} of the graph {body!r} is missing; the target has {shown}.")
        right, got = numpy_helper.to_array(tensor), numpy_helper.to_array(found[body, name])
        if describe(got) != describe(right):
            raise WrongAnswer(f"The weights of {name!r} were {describe(right)}, they are {describe(got)} now.")
        if got.tobytes() != right.tobytes():
            gap = float(np.abs(got - right).max())
            close = ""
            if right.dtype == np.float64 and np.array_equal(got, right.astype(np.float32)):
                close = " They went through float32, and float32 does not hold these float64 values."
            elif any(key == name and t.raw_data == got.tobytes() for (_, key), t in _weights(wanted).items()):
                close = " They are those of the same name in another branch: the names of each branch are apart."
            elif gap < 100 * TOLERANCE["float16"][0]:
                close = " They were rounded on the way, for example to half precision."
            raise WrongAnswer(
                f"The weights of {name!r} have changed, by up to {gap:.3g}; every bit has to stay.{close}"
            )
