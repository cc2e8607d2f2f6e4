"""Small models, and what is known of them before they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from oplab.ops.reference import OPERATORS


def info(name: str, kind: Any, shape: list | None = None) -> onnx.ValueInfoProto:
    """An input or output; its type in ONNX's number or NumPy's words."""
    dtype = kind if isinstance(kind, int) else helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    shapes: Mapping[str, list | None] | None = None,
    *,
    domains: Iterable[tuple[str, int]] = (("oplab", 1),),
    opset: int = 20,
    ir_version: int = 10,
) -> onnx.ModelProto:
    """A model of these nodes; inputs and outputs with their types, and the shapes that are declared."""
    ends = [[info(name, kind, (shapes or {}).get(name)) for name, kind in each.items()] for each in (inputs, outputs)]
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*domain) for domain in domains)]
    return helper.make_model(helper.make_graph(nodes, "g", *ends), opset_imports=opsets, ir_version=ir_version)


def one_node(op: str, feed: dict[str, np.ndarray], names=None, outputs=("y",), domain="oplab", opset=22, **attributes):
    """A model of one node whose inputs are those of the feed; a name "" in ``names`` leaves an input out."""
    node = helper.make_node(op, list(feed) if names is None else names, list(outputs), domain=domain, **attributes)
    types = {name: value.dtype for name, value in feed.items()}
    model = model_of([node], types, dict.fromkeys(outputs, 0), domains=[("oplab", 1)] if domain else [], opset=opset)
    for output in model.graph.output:
        output.type.Clear()
    return model


def evaluate(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of ONNX's reference evaluator with the course's operators."""
    return ReferenceEvaluator(model, new_ops=list(OPERATORS)).run(None, feed)


def sizes(port) -> list:
    """The shape of an input or output; None for an unknown size, which has a name of its own in each session."""
    return [None if str(size).startswith("unknown_") else size for size in port.shape]
