"""Chapter 03's rule for sizes is ONNX Runtime's own, and PyTorch's and ONNX's reference have another one."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from oplab.checks.c03_dynamic_models import sizes


@pytest.fixture(scope="module")
def resize():
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    values = [("x", list("nchw")), ("scales", [4]), ("y", list("abcd"))]
    x, scales, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values)
    graph = helper.make_graph([node], "resize", [x, scales], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_sizes_are_those_of_onnx_runtime(resize, seed):
    session = onnxruntime.InferenceSession(resize.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    odd = [(float(size), factor) for size in range(10, 130, 10) for factor in (0.7, 1.3, 2.3)]
    drawn = [(float(rng.integers(4, 900)), float(rng.uniform(0.3, 4))) for _ in range(200)]
    for size, factor in odd + drawn:
        x = np.zeros((1, 1, int(size), 1), np.float32)
        (y,) = session.run(None, {"x": x, "scales": np.float32([1, 1, factor, 1])})
        assert y.shape[2:] == sizes(x.shape, (factor, 1.0)), (size, factor)
