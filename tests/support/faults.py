"""A long chain of nodes, and faults to plant into a model: a seeded mutator over attributes, constants and wiring."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from oplab.debug.model import Wiring


def plant(model: onnx.ModelProto, rng: np.random.Generator) -> tuple[onnx.ModelProto, int, str]:
    """A copy with one fault, the place of the node that has it, and a word for its kind."""
    kinds = [_attribute, _constant, _wiring]
    while True:
        made = onnx.ModelProto()
        made.CopyFrom(model)
        kind = kinds[int(rng.integers(len(kinds)))]
        node = int(rng.integers(len(made.graph.node)))
        if kind(made, node, rng):
            del made.graph.value_info[:]
            return made, node, kind.__name__.strip("_")


def _attribute(model: onnx.ModelProto, place: int, rng: np.random.Generator) -> bool:
    """Another alpha."""
    for attribute in model.graph.node[place].attribute:
        attribute.f = attribute.f * 2 + 0.5
        return True
    return False


def _constant(model: onnx.ModelProto, place: int, rng: np.random.Generator) -> bool:
    """One value of a constant that the node reads, in a copy of its own: a stale weight."""
    node = model.graph.node[place]
    known = {tensor.name: tensor for tensor in model.graph.initializer}
    able = [k for k, name in enumerate(node.input) if name in known and known[name].data_type == onnx.TensorProto.FLOAT]
    if not able:
        return False
    k = able[int(rng.integers(len(able)))]
    array = numpy_helper.to_array(known[node.input[k]]).copy()
    flat = array.reshape(-1)
    flat[int(rng.integers(flat.size))] += 2 * (np.abs(array).max() + 1)
    name = f"{node.input[k]}_stale"
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    node.input[k] = name
    return True


def _wiring(model: onnx.ModelProto, place: int, rng: np.random.Generator) -> bool:
    """Another value of an earlier node in the place of an input."""
    wiring = Wiring(model)
    node = model.graph.node[place]
    able = [k for k, name in enumerate(node.input) if name in wiring.makers]
    earlier = [name for name, i in wiring.makers.items() if i < place]
    if not able or len(earlier) < 2:
        return False
    k = able[int(rng.integers(len(able)))]
    other = [name for name in earlier[-8:] if name != node.input[k]]
    node.input[k] = other[int(rng.integers(len(other)))]
    return True


def chain(nodes: int, seed: int = 0) -> onnx.ModelProto:
    """``nodes`` nodes: matrix products with activations, and a sum over a shortcut every seventh."""
    rng = np.random.default_rng(seed)
    made, constants, last, shortcut = [], [], "x", "x"
    for i in range(nodes):
        name = f"v{i}"
        if i % 7 == 6:
            made.append(helper.make_node("Add", [last, shortcut], [name], name=f"node{i}"))
            shortcut = name
        elif i % 3 == 0:
            weight = rng.normal(size=(8, 8)).astype(np.float32) / 3
            constants.append(numpy_helper.from_array(weight, f"w{i}"))
            made.append(helper.make_node("MatMul", [last, f"w{i}"], [name], name=f"node{i}"))
        elif i % 3 == 1:
            made.append(helper.make_node("LeakyRelu", [last], [name], name=f"node{i}", alpha=0.3))
        else:
            made.append(helper.make_node("Elu", [last], [name], name=f"node{i}", alpha=0.7))
        last = name
    graph = helper.make_graph(
        made,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", 8])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
