"""What is known to be wrong before a model runs: operators that a backend computes wrongly, and nodes that ONNX does not allow."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from oplab.onnxtools.subgraphs import every_node

STANDARD = ("", "ai.onnx")


@dataclass(frozen=True)
class Fault:
    """A backend computes an operator wrongly.

    Attributes:
        backend: one of :data:`oplab.parity.backends.ALL`.
        operator: of ONNX's own domain.
        opsets: of the models in which it is wrong.
        version: the last version of the package in which this was seen.
        sentence: what the backend does.
    """

    backend: str
    operator: str
    opsets: range
    version: str
    sentence: str


# tests/debug/test_parity_truth.py fails when one of them is fixed upstream: delete it then.
FAULTS = (
    Fault(
        "reference",
        "BatchNormalization",
        range(7, 14),
        "onnx 1.23.2",
        "onnx.reference computes BatchNormalization below opset 14 with the statistics of the batch instead of the model's",
    ),
)


def known_faults(model: onnx.ModelProto) -> list[Fault]:
    """The faults of :data:`FAULTS` that concern a model."""
    used = {node.op_type for node in every_node(model) if node.domain in STANDARD}
    return [fault for fault in FAULTS if fault.operator in used and _opset(model) in fault.opsets]


def forbidden(model: onnx.ModelProto) -> list[str]:
    """A sentence for each node that ONNX does not allow at the model's opset, although exporters write it and some backends run it.

    The checker of the onnx package accepts these nodes.
    """
    suspects = [node for node in model.graph.node if node.op_type == "GridSample" and node.domain in STANDARD]
    if not suspects or _opset(model) >= 20:
        return []
    graph = onnx.shape_inference.infer_shapes(model).graph
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in (*graph.input, *graph.value_info)}
    return [
        f"the model is not valid: GridSample (node {node.name!r}) takes 5-D inputs since opset 20, and the model has opset "
        f"{_opset(model)}; export it with opset_version=20"
        for node in suspects
        if ranks.get(node.input[0]) == 5
    ]


def _opset(model: onnx.ModelProto) -> int:
    return max((entry.version for entry in model.opset_import if entry.domain in STANDARD), default=0)
