"""Operators of the old texts: deformable convolution, interpolation and a plugin's resize."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from torch.onnx.symbolic_helper import parse_args

from oplab.archaeology.probes.exports import (
    Model,
    attributes,
    export,
    fails,
    node,
    ops,
    registered,
    run,
    same,
    stderr_of,
    warned,
)
from oplab.archaeology.probes.table import new, old


@new("deform_missing")
def _() -> str:
    helper, float_ = onnx.helper, onnx.TensorProto.FLOAT
    ports = [helper.make_tensor_value_info(name, float_, None) for name in ("X", "W", "offset", "Y")]
    made = helper.make_node("DeformConv", ["X", "W", "offset"], ["Y"])
    graph = helper.make_graph([made], "g", ports[:3], ports[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    image = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    got = run(model, image, np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 8, 2, 2), np.float32))
    same(got, [[[[8, 12], [20, 24]]]])  # without offsets: sums of 2 x 2
    return "ONNX Runtime's CPU runs it"


@old("deform_missing")
def _() -> str:
    schema = onnx.defs.get_schema("DeformConv", 19)
    names = [entry.name for entry in schema.inputs]
    assert names == ["X", "W", "offset", "B", "mask"]
    fails(onnx.defs.SchemaError, "", lambda: onnx.defs.get_schema("DeformConv", 18))
    return f"DeformConv since 19: {names}"


@old("deform_schema")
def _() -> str:
    import torchvision  # noqa: F401

    schema = torch.ops.torchvision.deform_conv2d.default._schema
    kinds = [str(argument.type) for argument in schema.arguments]
    assert kinds.count("Tensor") == 5 and len(kinds) == 14
    return "five tensors, eight ints, one bool"


def _deform_export(symbolic: Callable[..., Any]) -> onnx.ModelProto:
    import torchvision

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torchvision.ops.DeformConv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x, torch.zeros(1, 18, 4, 4))

    made = []
    with registered("torchvision::deform_conv2d", symbolic):
        stderr_of(lambda: made.append(export(Net(), torch.ones(1, 3, 6, 6))))
    return made[0]


_DEFORM = ("v",) * 5 + ("i",) * 8


@old("deform_two_inputs")
def _() -> str:
    @parse_args(*_DEFORM, "none")
    def symbolic(g, input, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
        return g.op("custom::deform_conv2d", input, offset)

    found = node(_deform_export(symbolic), "deform_conv2d")
    assert len(found.input) == 2 and not found.attribute
    return "two inputs, no attributes, no weight"


@new("deform_two_inputs")
def _() -> str:
    # parse_args goes by the names of the parameters: what *args would take is dropped without an error.
    @parse_args(*_DEFORM, "b")
    def symbolic(g, input, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
        words = {"strides_i": [sh, sw], "pads_i": [ph, pw, ph, pw], "dilations_i": [dh, dw], "group_i": groups}
        tensors = [input, weight, offset, bias, *([mask] if use_mask else [])]
        return g.op("custom::DeformConv2d", *tensors, offset_group_i=offset_groups, **words)

    found = node(_deform_export(symbolic), "DeformConv2d")
    assert len(found.input) == 4 and attributes(found)["strides"] == [1, 1] and len(found.attribute) == 5
    return f"four inputs (no mask), {sorted(attributes(found))}"


@old("interpolate_tensor")
def _() -> str:
    image, factor = torch.rand(1, 3, 4, 4), torch.tensor([3.0, 3.0])
    return fails(TypeError, "", lambda: torch.nn.functional.interpolate(image, scale_factor=factor, mode="bicubic"))


class NewInterpolate(torch.autograd.Function):
    """Bicubic interpolation whose factor is a tensor."""

    @staticmethod
    def forward(ctx: Any, image: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """``image`` (N, C, H, W), enlarged by the last two of ``scales`` (4,)."""
        factors = scales.tolist()[-2:]
        return torch.nn.functional.interpolate(image, scale_factor=factors, mode="bicubic", align_corners=False)

    @staticmethod
    def symbolic(g: Any, image: Any, scales: Any) -> Any:
        """One node Resize."""
        empty = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
        words = {"coordinate_transformation_mode_s": "pytorch_half_pixel", "mode_s": "cubic", "nearest_mode_s": "floor"}
        return g.op("Resize", image, empty, scales, cubic_coeff_a_f=-0.75, **words)


@old("new_interpolate")
@new("interpolate_tensor")
def _() -> str:
    image, three, two = torch.rand(1, 3, 4, 4), torch.tensor([1.0, 1, 3, 3]), torch.tensor([1.0, 1, 2, 2])
    for opset in (11, 13, 20):
        model = export(NewInterpolate.apply, image, three, opset_version=opset)
        assert [value.name for value in model.graph.input] == ["x", "y"]
        got, expected = run(model, image, two), NewInterpolate.apply(image, two)
        np.testing.assert_allclose(got, expected, atol=1e-4)
    return "exported with the factor 3, right with 2, at opsets 11, 13 and 20"


@old("interpolate_resize")
def _() -> str:
    image = torch.rand(1, 3, 4, 4)
    both = [lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0), torch.nn.Upsample(scale_factor=2.0)]
    found = [ops(export(entry, image)) for entry in both]
    assert found == [["Resize"], ["Resize"]]
    return str(found)


class DynamicResize(NewInterpolate):
    """A plugin instead of Resize."""

    @staticmethod
    def symbolic(g: Any, image: Any, scales: Any) -> Any:
        """One node of a custom domain, without a type."""
        return g.op("Just_A_Scope_Name::DynamicTRTResize", image, scales)


@old("dynamic_trt_resize")
def _() -> str:
    image, three = torch.rand(1, 3, 4, 4), torch.tensor([1.0, 1, 3, 3])
    with warned() as caught:
        options = {"dynamo": False, "input_names": ["x", "y"]}
        text = stderr_of(lambda: torch.onnx.export(Model(DynamicResize.apply), (image, three), io.BytesIO(), **options))
    assert "shape inference of Just_A_Scope_Name::DynamicTRTResize type is missing" in text
    assert not any("shape inference" in str(entry.message) for entry in caught)
    return "the warning is on stderr, not in Python's warnings"


@new("dynamic_trt_resize")
def _() -> str:
    class Typed(NewInterpolate):
        @staticmethod
        def symbolic(g: Any, image: Any, scales: Any) -> Any:
            made = g.op("Just_A_Scope_Name::DynamicTRTResize", image, scales)
            return made.setType(image.type().with_sizes([1, 3, None, None]))

    image, three = torch.rand(1, 3, 4, 4), torch.tensor([1.0, 1, 3, 3])
    text = stderr_of(lambda: export(Typed.apply, image, three))
    assert text == ""
    return "no warning"
