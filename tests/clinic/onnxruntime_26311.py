"""bfloat16 on a CPU: ONNX Runtime has no MatMul for it."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from tests.clinic.tools import refusal
from tests.support.models import model_of

BF16, FLOAT = TensorProto.BFLOAT16, TensorProto.FLOAT
SHAPES = dict.fromkeys("abxy", [2, 2])
PLAIN = model_of(
    [helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": BF16, "b": BF16}, {"y": BF16}, SHAPES, domains=()
)
CAST = model_of(
    [
        helper.make_node("Cast", ["a"], ["a32"], to=FLOAT),
        helper.make_node("Cast", ["b"], ["b32"], to=FLOAT),
        helper.make_node("MatMul", ["a32", "b32"], ["y32"]),
        helper.make_node("Cast", ["y32"], ["y"], to=BF16),
        helper.make_node("Cast", ["y"], ["seen"], to=FLOAT),
    ],
    {"a": BF16, "b": BF16},
    {"y": BF16, "seen": FLOAT},
    SHAPES,
    domains=(),
)


def happens() -> bool:
    message = refusal(Exception, onnxruntime.InferenceSession, PLAIN.SerializeToString())
    return "NOT_IMPLEMENTED" in message and "MatMul" in message


def way_around() -> None:
    session = onnxruntime.InferenceSession(CAST.SerializeToString())
    # NumPy has no bfloat16: the upper halves of float32 numbers, as uint16.
    bits = (np.array([[1, 2], [3, 4]], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, BF16)
    y, seen = session.run_with_ort_values(None, {"a": value, "b": value})
    assert y.element_type() == BF16
    assert seen.numpy().tolist() == [[7, 10], [15, 22]]
