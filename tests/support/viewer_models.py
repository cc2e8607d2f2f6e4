"""Small models for the viewer's tests. They need onnx and numpy only, so a kernel has them at once."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def info(name: str, shape: list | None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list, inputs: list, outputs: list, tensors: tuple = (), name: str = "tiny", **more: int
) -> onnx.ModelProto:
    """A ModelProto that today's runtimes accept; ``more`` are domains and their versions."""
    graph = helper.make_graph(nodes, name, inputs, outputs, list(tensors))
    opsets = [helper.make_opsetid("", 20)]
    opsets += [helper.make_opsetid(d.replace("_", "."), v) for d, v in more.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def conv(name: str = "convolution") -> onnx.ModelProto:
    """x -> Conv -> Relu -> y, with weights."""
    weight = np.arange(4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3) / 100
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="first", pads=[1, 1, 1, 1], kernel_shape=[3, 3], group=1),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    tensors = (
        numpy_helper.from_array(weight, "w"),
        numpy_helper.from_array(np.linspace(0, 1, 4, dtype=np.float32), "b"),
    )
    return model(nodes, [info("x", [1, 3, "h", "w"])], [info("y", [1, 4, "h", "w"])], tensors, name)


def decomposed() -> onnx.ModelProto:
    """3a + 2b as two Mul and an Add."""
    nodes = [
        helper.make_node("Mul", ["a", "three"], ["p"]),
        helper.make_node("Mul", ["b", "two"], ["q"]),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    tensors = (numpy_helper.from_array(np.float32(3), "three"), numpy_helper.from_array(np.float32(2), "two"))
    return model(nodes, [info("a", ["n"]), info("b", ["n"])], [info("y", ["n"])], tensors, "decomposed")


def custom() -> onnx.ModelProto:
    """3a + 2b as one oplab::MyAdd."""
    node = helper.make_node("MyAdd", ["a", "b"], ["y"], domain="oplab", alpha=3.0, beta=2.0)
    return model([node], [info("a", ["n"]), info("b", ["n"])], [info("y", ["n"])], (), "custom", oplab=1)


def control_flow() -> onnx.ModelProto:
    """An If whose branches read from outside, then a Loop."""
    then = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["t"])], "then", [], [info("t", None)])
    other = helper.make_graph(
        [helper.make_node("Add", ["x", "x2"], ["s"]), helper.make_node("Relu", ["s"], ["e"])],
        "else",
        [],
        [info("e", None)],
    )
    body = helper.make_graph(
        [helper.make_node("Add", ["acc", "x"], ["acc2"]), helper.make_node("Identity", ["cond_in"], ["cond_out"])],
        "body",
        [info("i", [], TensorProto.INT64), info("cond_in", [], TensorProto.BOOL), info("acc", ["n"])],
        [info("cond_out", [], TensorProto.BOOL), info("acc2", ["n"])],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["c"]),
        helper.make_node("Sigmoid", ["x"], ["x2"]),
        helper.make_node("If", ["c"], ["y"], name="choose", then_branch=then, else_branch=other),
        helper.make_node("Loop", ["trips", "", "y"], ["z"], body=body),
    ]
    tensors = (numpy_helper.from_array(np.float32(2), "two"), numpy_helper.from_array(np.float32(0), "zero"))
    inputs = [info("x", ["n"]), info("trips", [], TensorProto.INT64)]
    return model(nodes, inputs, [info("z", ["n"])], tensors, "control flow")


def chain(
    length: int, ops: tuple[str, ...] = ("Relu", "Sigmoid", "Tanh", "Neg"), name: str = "chain"
) -> onnx.ModelProto:
    """``length`` nodes one after the other."""
    nodes = [
        helper.make_node(ops[i % len(ops)], [f"t{i}" if i else "x"], [f"t{i + 1}" if i < length - 1 else "y"])
        for i in range(length)
    ]
    return model(nodes, [info("x", [1, 4])], [info("y", [1, 4])], (), name)


def tangle(length: int, seed: int = 1, reach: int = 50) -> onnx.ModelProto:
    """``length`` nodes without a pattern: most follow the one before, some join an earlier one."""
    rng = np.random.default_rng(seed)
    ops = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp")
    nodes = []
    for i in range(length):
        before = f"t{i - 1}" if i else "x"
        out = "y" if i == length - 1 else f"t{i}"
        if rng.random() < 0.3:
            earlier = f"t{rng.integers(max(0, i - reach), i)}" if i else "x"
            nodes.append(helper.make_node("Add", [before, earlier], [out]))
        else:
            nodes.append(helper.make_node(ops[rng.integers(len(ops))], [before], [out]))
    return model(nodes, [info("x", [4])], [info("y", [4])], (), "tangle")


def transformer(layers: int, width: int = 64) -> onnx.ModelProto:
    """Blocks of attention and MLP with residuals, 25 nodes each, as an exporter writes them."""
    nodes, tensors = [], []

    def add(op: str, inputs: list[str], out: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def weight(name: str, *shape: int) -> str:
        tensors.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    def ints(name: str, *values: int) -> str:
        tensors.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    x = "x"
    for k in range(layers):
        p = f"l{k}_"
        h = add("LayerNormalization", [x, weight(p + "s1", width), weight(p + "b1", width)], p + "n1", axis=-1)
        heads = []
        for part in "qkv":
            t = add("MatMul", [h, weight(p + "w" + part, width, width)], p + part + "0")
            t = add("Add", [t, weight(p + "c" + part, width)], p + part + "1")
            t = add("Reshape", [t, ints(p + "r" + part, 0, 0, 4, width // 4)], p + part + "2")
            heads.append(add("Transpose", [t], p + part + "3", perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]))
        a = add("MatMul", [heads[0], heads[1]], p + "a0")
        a = add("Mul", [a, weight(p + "scale")], p + "a1")
        a = add("Softmax", [a], p + "a2", axis=-1)
        a = add("MatMul", [a, heads[2]], p + "a3")
        a = add("Transpose", [a], p + "a4", perm=[0, 2, 1, 3])
        a = add("Reshape", [a, ints(p + "ro", 0, 0, width)], p + "a5")
        a = add("MatMul", [a, weight(p + "wo", width, width)], p + "a6")
        x = add("Add", [x, a], p + "x1")
        h = add("LayerNormalization", [x, weight(p + "s2", width), weight(p + "b2", width)], p + "n2", axis=-1)
        h = add("MatMul", [h, weight(p + "u", width, 2 * width)], p + "m0")
        h = add("Gelu", [h], p + "m1")
        h = add("MatMul", [h, weight(p + "d", 2 * width, width)], p + "m2")
        x = add("Add", [x, h], "y" if k == layers - 1 else p + "x2")
    shape = ["batch", "tokens", width]
    return model(nodes, [info("x", shape)], [info("y", shape)], tuple(tensors), "transformer")
