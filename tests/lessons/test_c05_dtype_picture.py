"""The graph coloured by dtype: every box and line has the colour of its value, and boxes do not lie on each other."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from oplab.figures.dtypes import _plan


@pytest.fixture
def model() -> onnx.ModelProto:
    """x (float32) is cast to double, multiplied by a double constant and clipped from below by an int64, which ONNX refuses."""
    two = numpy_helper.from_array(np.array([2.0]), "two")
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Constant", [], ["c"], value=two),
        helper.make_node("Mul", ["wide", "c"], ["m"]),
        helper.make_node("Constant", [], ["low"], value=numpy_helper.from_array(np.array(0))),
        helper.make_node("Clip", ["m", "", "low"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["n"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def test_every_value_has_its_dtype_and_its_place(model):
    places, boxes, lines = _plan(model)
    assert {text: dtype for text, dtype, _ in boxes.values()} == {
        "x": "float32",
        "Cast": "float64",
        "[2.]": "float64",
        "Mul": "float64",
        "0": "int64",
        "Clip": "float64",
        "y": "float64",
    }
    assert ("x", "0 Cast", "float32") in lines and len(lines) == 6
    for row in {row for _, row in places.values()}:
        xs = sorted(x for x, here in places.values() if here == row)
        assert all(right - left >= 0.99 for left, right in zip(xs, xs[1:], strict=False))
    assert all(places[start][1] < places[end][1] for start, end, _ in lines)
