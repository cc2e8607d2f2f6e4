"""What chapter 01 and its judge take for granted: the versions that ONNX Runtime takes, and a meaning for every field."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from oplab.checks import c01_onnx_model as checks
from oplab.figures.messages import MEANINGS, message_name

MESSAGES = [
    onnx.ModelProto,
    onnx.OperatorSetIdProto,
    onnx.GraphProto,
    onnx.NodeProto,
    onnx.AttributeProto,
    onnx.ValueInfoProto,
    onnx.TypeProto,
    onnx.TypeProto.Tensor,
    onnx.TensorShapeProto,
    onnx.TensorShapeProto.Dimension,
    onnx.TensorProto,
    onnx.StringStringEntryProto,
]


def neg(ir: int, opset: int) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def taken(model: onnx.ModelProto) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


def test_the_limits_are_those_of_onnxruntime():
    assert taken(neg(checks.MAX_IR, checks.MAX_OPSET))
    assert not taken(neg(checks.MAX_IR + 1, checks.MAX_OPSET))
    assert not taken(neg(checks.MAX_IR, checks.MAX_OPSET + 1))


def test_every_field_has_a_meaning_and_no_other():
    fields = {message_name(message): [field.name for field in message.DESCRIPTOR.fields] for message in MESSAGES}
    assert {name: list(meanings) for name, meanings in MEANINGS.items()} == fields


def test_the_models_are_valid_before_they_are_broken(seed):
    rng = np.random.default_rng(seed)
    for _ in range(4):
        for title, (model, broken) in checks.broken_models(rng).items():
            onnx.checker.check_model(model, full_check=True)
            assert (model == broken) == (title == "nothing is wrong")
        for model in [*checks.shape_models(rng).values(), *checks.inventory_models(rng).values()]:
            onnx.checker.check_model(model)
