"""How alike two ONNX graphs are, whatever their values are called and whatever numbers they hold.

A submission is source text, so `oplab class similar` compares texts. This is for a teacher who has models: files that learners
handed in, or that were exported from their answers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from oplab.onnxtools import loading

if TYPE_CHECKING:
    import onnx

DEPTH = 3  # how far from a node its inputs count: the node, what feeds it, and so on


def graph_similarity(first: Any, second: Any, given: Any = None) -> float:
    """The share of nodes that two models have in common, 0 to 1.

    Two nodes are the same if their operators, domains and attributes are, and what feeds them, DEPTH nodes deep. Names do not count,
    nor do the values of initializers, constants and tensor attributes, only their types and shapes; a Constant node equals an
    initializer. The order of independent nodes does not count.

    Args:
        first, second: models: paths of ``.onnx`` files, bytes or ModelProtos.
        given: a model whose nodes do not count, for example the reference's; None subtracts nothing.

    Returns:
        2 × common nodes / all nodes. 0 where nothing is left to compare.

    Raises:
        OplabError: one of them is not a model.
    """
    labels = [_labels(loading.load(model, weights=False)) for model in (first, second)]
    if given is not None:
        known = _labels(loading.load(given, weights=False))
        labels = [found - known for found in labels]
    total = sum(found.total() for found in labels)
    return 2 * (labels[0] & labels[1]).total() / total if total else 0.0


def _labels(model: onnx.ModelProto) -> Counter[str]:
    """How often each node occurs, the nodes of functions and subgraphs included."""
    found = Counter(_in_graph(model.graph.node, model.graph.initializer, {}))
    for function in model.functions:
        found += Counter(_in_graph(function.node, (), {}))
    return found


def _in_graph(
    nodes: Iterable[onnx.NodeProto], initializers: Iterable[onnx.TensorProto], outside: dict[str, str]
) -> list[str]:
    """The label of each node. ``outside`` has the kinds of the values around a subgraph: a value from there is known by its kind only."""
    constants = outside | {tensor.name: _tensor(tensor) for tensor in initializers}
    makers: dict[str, tuple[onnx.NodeProto, int]] = {}
    kept = []
    for node in nodes:
        if node.op_type == "Constant" and not node.domain:
            constants[node.output[0]] = _constant(node)
            continue
        kept.append(node)
        makers |= {name: (node, place) for place, name in enumerate(node.output)}
    known: dict[tuple[str, int], str] = {}

    def value(name: str, depth: int) -> str:
        if (name, depth) not in known:
            if not name:
                text = "absent"
            elif name in makers:
                node, place = makers[name]
                text = f"{label(node, depth - 1)}.{place}" if depth else node.op_type
            else:
                text = constants.get(name, "input")
            known[name, depth] = text
        return known[name, depth]

    def label(node: onnx.NodeProto, depth: int) -> str:
        attributes = sorted(f"{entry.name}={_attribute(entry, constants)}" for entry in node.attribute)
        parts = [node.domain, node.op_type, *attributes, *(value(name, depth) for name in node.input)]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    found = [label(node, DEPTH - 1) for node in kept]
    for node in kept:
        for entry in node.attribute:
            for graph in [entry.g] if entry.HasField("g") else entry.graphs:
                found += _in_graph(graph.node, graph.initializer, constants)
    return found


def _constant(node: onnx.NodeProto) -> str:
    """What is known of a Constant node; one that holds a tensor equals an initializer."""
    for entry in node.attribute:
        if entry.HasField("t"):
            return _tensor(entry.t)
        return f"constant {entry.name}"
    return "constant"


def _tensor(tensor: onnx.TensorProto) -> str:
    return f"constant {tensor.data_type} {list(tensor.dims)}"


def _attribute(entry: onnx.AttributeProto, constants: dict[str, str]) -> str:
    if entry.HasField("t"):
        return _tensor(entry.t)
    if entry.HasField("g"):
        return "|".join(sorted(_in_graph(entry.g.node, entry.g.initializer, constants)))
    import onnx

    return repr(onnx.helper.get_attribute_value(entry))
