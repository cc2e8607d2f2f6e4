"""What is known to be wrong before a model runs: operators that a backend computes wrongly, and nodes that ONNX does not allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from oplab.onnxtools.subgraphs import every_node

STANDARD = ("", "ai.onnx")


@dataclass(frozen=True)
class Fault:
    """A backend computes an operator wrongly, or ONNX does not allow a node although exporters write it.

    Attributes:
        backend: one of :data:`oplab.parity.backends.ALL`; empty if the model is at fault.
        operators: of ONNX's own domain.
        opsets: of the models in which it is wrong.
        sentence: what is wrong, with the last version of the package in which it was seen.
        applies: whether a node of these is wrong, from its attributes (numbers and bytes) and the rank of its first input; None
            if that is not known.
    """

    backend: str
    operators: tuple[str, ...]
    opsets: range
    sentence: str
    applies: Callable[[Mapping[str, Any], int | None], bool] = lambda attributes, rank: True


def _not_last(attributes: Mapping[str, Any], rank: int | None) -> bool:
    axis = attributes.get("axis", 1)
    return axis != -1 and (rank is None or axis != rank - 1)


# A test fails when one of them is fixed upstream: delete it then.
_REFERENCE, _OPENVINO, _ALL = "onnx.reference (seen in 1.23.2)", "OpenVINO (seen in 2026.4.1)", range(1, 1000)
FAULTS = (
    Fault(
        "reference",
        ("BatchNormalization",),
        range(7, 14),
        f"{_REFERENCE} computes BatchNormalization below opset 14 with the statistics of the batch instead of the model's",
    ),
    Fault(
        "reference",
        ("Softmax", "LogSoftmax", "Hardmax"),
        range(1, 13),
        f"{_REFERENCE} computes Softmax, LogSoftmax and Hardmax below opset 13 along one axis instead of all axes from it",
        _not_last,
    ),
    Fault(
        "openvino",
        ("Softmax",),
        range(11, 13),
        f"{_OPENVINO} computes Softmax at opset 11 and 12 along one axis instead of all axes from it",
        _not_last,
    ),
    Fault(
        "reference",
        ("RoiAlign",),
        range(10, 16),
        f"{_REFERENCE} shifts the boxes of RoiAlign below opset 16 by half a pixel",
    ),
    Fault(
        "reference",
        ("MaxPool",),
        _ALL,
        f"{_REFERENCE} pads MaxPool wrongly with auto_pad=SAME_LOWER",
        lambda attributes, rank: attributes.get("auto_pad") == b"SAME_LOWER",
    ),
    Fault(
        "reference",
        ("GridSample",),
        _ALL,
        f"{_REFERENCE} computes a cubic GridSample with padding_mode=border wrongly",
        lambda attributes, rank: (attributes.get("mode"), attributes.get("padding_mode")) == (b"cubic", b"border"),
    ),
    Fault(
        "openvino",
        ("Resize",),
        _ALL,
        f"{_OPENVINO} ignores antialias in Resize",
        lambda attributes, rank: attributes.get("antialias") == 1,
    ),
    Fault(
        "",
        ("GridSample",),
        range(16, 20),
        "the model is not valid: GridSample takes 5-D inputs since opset 20; export it with opset_version=20",
        lambda attributes, rank: rank == 5,
    ),
)


def known_faults(model: onnx.ModelProto) -> list[Fault]:
    """The faults of :data:`FAULTS` that concern a model; where a rank is not known, also those that only may."""
    opset = max((entry.version for entry in model.opset_import if entry.domain in STANDARD), default=0)
    found = [
        (fault, node)
        for node in every_node(model)
        for fault in FAULTS
        if node.domain in STANDARD and node.op_type in fault.operators and opset in fault.opsets
    ]
    ranks = _ranks(model) if found else {}
    applying = [
        fault
        for fault, node in found
        if fault.applies({one.name: one.s or one.i for one in node.attribute}, ranks.get("".join(node.input[:1])))
    ]
    return list(dict.fromkeys(applying))


def _ranks(model: onnx.ModelProto) -> dict[str, int]:
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # a model that is not valid, or too large
        graph = model.graph
    types = {value.name: value.type.tensor_type for value in (*graph.input, *graph.value_info)}
    return {name: len(kind.shape.dim) for name, kind in types.items() if kind.HasField("shape")}
