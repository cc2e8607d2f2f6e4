"""The graphs inside a node: the bodies of If, Loop and Scan, and what they take from the graph around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a caller that has a node has imported it
    import onnx


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among the attributes of a node, not those inside them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """These nodes, each followed by all nodes of its bodies."""
    for node in nodes:
        yield node
        for body in bodies(node):
            yield from walk(body.node)


def every_node(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of the main graph and of the model-local functions, each followed by all nodes of its bodies."""
    yield from walk([*model.graph.node, *(node for function in model.functions for node in function.node)])


def reads(node: onnx.NodeProto) -> list[str]:
    """The values that a node takes, with those that its bodies take from outside; each once, in the node's order."""
    found = list(node.input)
    for body in bodies(node):
        inside = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
        inside |= {name for inner in body.node for name in inner.output}
        taken = [name for inner in body.node for name in reads(inner)] + [value.name for value in body.output]
        found += [name for name in taken if name not in inside]
    return [name for name in dict.fromkeys(found) if name]
