"""What judges ask of the nodes of an ONNX graph: which there are, their inputs and attributes."""

from __future__ import annotations

from typing import Any

import onnx

from oplab.checks import graphs
from oplab.onnxtools.names import node_type
from oplab.parity.arrays import WrongAnswer


def foreign(model: onnx.ModelProto) -> list[str]:
    """The operators that are not ONNX's own, as ``domain::Type``, sorted."""
    return sorted(name for name in graphs.ops(model) if "::" in name)


def expect_standard(model: onnx.ModelProto) -> None:
    """Demand operators of ONNX alone.

    Raises:
        WrongAnswer: it has others.
    """
    if others := foreign(model):
        raise WrongAnswer(
            f"The graph has {', '.join(others)}: use operators of ONNX alone, each is named without a domain."
        )


def only_node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    """The one node of the main graph that is ``name``: ``domain::Type``, or a type of ONNX.

    Raises:
        WrongAnswer: the model has no such node, or several.
    """
    graphs.expect_ops(model, {name: 1})
    return next(node for node in model.graph.node if node_type(node) == name)


def expect_alone(model: onnx.ModelProto, name: str) -> None:
    """Demand one operator ``name``, and apart from it only constants.

    Raises:
        WrongAnswer: it has other nodes.
    """
    others = sorted(set(graphs.ops(model)) - {name, "Constant", "ConstantOfShape", "Identity"})
    if others:
        raise WrongAnswer(f"Expected {name} alone, the graph also has {', '.join(others)}.")


def inputs(node: onnx.NodeProto) -> list[str]:
    """The names of the inputs, without the empty ones at the end, which mean the same as leaving them out."""
    names = list(node.input)
    while names and not names[-1]:
        names.pop()
    return names


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes by name: an int, a float, bytes, an ``onnx.TensorProto``, or a list of one of these."""
    return {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}


def attribute_types(node: onnx.NodeProto) -> dict[str, str]:
    """The type of each attribute by name: ``INT``, ``FLOATS`` and so on."""
    return {entry.name: onnx.AttributeProto.AttributeType.Name(entry.type) for entry in node.attribute}
