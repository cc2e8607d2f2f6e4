"""What is known to be wrong before a model runs: operators that a backend computes wrongly, and nodes that ONNX does not allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from oplab.onnxtools.subgraphs import every_node

STANDARD = ("", "ai.onnx")


@dataclass(frozen=True)
class Fault:
    """A backend computes an operator wrongly.

    Attributes:
        backend: one of :data:`oplab.parity.backends.ALL`.
        operators: of ONNX's own domain.
        opsets: of the models in which it is wrong.
        version: the last version of the package in which this was seen.
        sentence: what the backend does.
        attributes: of the node, where only these values are wrong.
    """

    backend: str
    operators: tuple[str, ...]
    opsets: range
    version: str
    sentence: str
    attributes: Mapping[str, str] = field(default_factory=dict)

    def concerns(self, node: onnx.NodeProto) -> bool:
        """Whether a node of such a model is one of these."""
        given = {one.name: one.s.decode(errors="replace") for one in node.attribute}
        return node.domain in STANDARD and node.op_type in self.operators and self.attributes.items() <= given.items()


# A test fails when one of them is fixed upstream: delete it then.
_ONNX, _OPENVINO, _ALL = "onnx 1.23.2", "openvino 2026.4.1", range(1, 1000)
FAULTS = (
    Fault(
        "reference",
        ("BatchNormalization",),
        range(7, 14),
        _ONNX,
        "onnx.reference computes BatchNormalization below opset 14 with the statistics of the batch instead of the model's",
    ),
    Fault(
        "reference",
        ("Softmax", "LogSoftmax", "Hardmax"),
        range(1, 13),
        _ONNX,
        "onnx.reference computes Softmax, LogSoftmax and Hardmax below opset 13 along one axis instead of all axes from the "
        "given one",
    ),
    Fault(
        "openvino",
        ("Softmax",),
        range(11, 13),
        _OPENVINO,
        "OpenVINO computes Softmax at opset 11 and 12 along one axis instead of all axes from the given one",
    ),
    Fault(
        "reference",
        ("RoiAlign",),
        range(10, 16),
        _ONNX,
        "onnx.reference shifts the boxes of RoiAlign below opset 16 by half a pixel",
    ),
    Fault(
        "reference",
        ("MaxPool",),
        _ALL,
        _ONNX,
        "onnx.reference pads MaxPool wrongly with auto_pad=SAME_LOWER",
        {"auto_pad": "SAME_LOWER"},
    ),
    Fault(
        "reference",
        ("GridSample",),
        _ALL,
        _ONNX,
        "onnx.reference computes a cubic GridSample with padding_mode=border wrongly",
        {"mode": "cubic", "padding_mode": "border"},
    ),
)


def known_faults(model: onnx.ModelProto) -> list[Fault]:
    """The faults of :data:`FAULTS` that concern a model."""
    nodes, opset = list(every_node(model)), _opset(model)
    return [fault for fault in FAULTS if opset in fault.opsets and any(map(fault.concerns, nodes))]


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
