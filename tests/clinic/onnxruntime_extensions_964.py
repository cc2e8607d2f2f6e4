"""A Python operator with @onnx_op whose domain is not that of the node."""

from __future__ import annotations

import numpy as np
import onnxruntime
import onnxruntime_extensions
from onnx import helper
from onnxruntime_extensions import PyCustomOpDef, onnx_op

from tests.clinic.tools import refusal
from tests.support.models import model_of

FLOAT = PyCustomOpDef.dt_float


@onnx_op(op_type="ClinicNegated", inputs=[FLOAT], outputs=[FLOAT])
def negated(x: np.ndarray) -> np.ndarray:
    """-x, in the domain ai.onnx.contrib: op_type names no other."""
    return -x


@onnx_op(op_type="clinic::ClinicNegated", inputs=[FLOAT], outputs=[FLOAT])
def negated_of_clinic(x: np.ndarray) -> np.ndarray:
    """-x, in the domain clinic."""
    return -x


def result(name: str, domain: str) -> list:
    """What a node of this domain computes."""
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    node = helper.make_node(name, ["x"], ["y"], domain=domain)
    model = model_of([node], {"x": "f4"}, {"y": "f4"}, domains=((domain, 1),))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"x": np.ones(1, np.float32)})[0].tolist()


def happens() -> bool:
    return "is not a registered function/op" in refusal(Exception, result, "ClinicNegated", "my_ops")


def way_around() -> None:
    assert result("ClinicNegated", "ai.onnx.contrib") == [-1]
    assert result("ClinicNegated", "clinic") == [-1]
