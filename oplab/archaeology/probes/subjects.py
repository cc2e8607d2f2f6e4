"""What the probes export: functions, operators and symbolic functions of the old texts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import onnx
import torch
from torch.onnx import OperatorExportTypes, symbolic_helper
from torch.onnx.symbolic_helper import parse_args

from oplab.archaeology.probes.exports import (
    X,
    export,
    export_dynamo,
    registered,
)


def relic(g: Any, x: Any) -> Any:
    """The symbolic function that most probes register."""
    return g.op("Asinh", x)


class Counter:
    """A symbolic function that counts its calls."""

    def __init__(self, function: Callable[..., Any] = relic):
        self.function, self.calls = function, 0

    def __call__(self, g: Any, *args: Any, **kwargs: Any) -> Any:
        """The function's result; one call more."""
        self.calls += 1
        return self.function(g, *args, **kwargs)


@functools.cache
def operators() -> Any:
    """The library and ``torch.ops.archaeology``: operators with the schemas of the old texts, for the life of the process."""
    library = torch.library.Library("archaeology", "DEF")
    library.define("grid(Tensor pos, Tensor size, Tensor? start, Tensor? end) -> Tensor")
    library.define("foo_forward(Tensor input1, Tensor input2, float attr1, int attr2) -> Tensor")
    library.define("raw_add(Tensor a) -> Tensor")

    def grid(pos: torch.Tensor, size: torch.Tensor, start: Any, end: Any) -> torch.Tensor:
        return ((pos if start is None else pos - start) / size).long().sum(-1)

    def foo(input1: torch.Tensor, input2: torch.Tensor, attr1: float, attr2: int) -> torch.Tensor:
        return attr1 * input1 + input2**attr2

    library.impl("grid", grid, "CompositeExplicitAutograd")
    library.impl("foo_forward", foo, "CompositeExplicitAutograd")
    return library, torch.ops.archaeology


class MyRelu(torch.autograd.Function):
    """The text's Function, without a ``symbolic``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """``max(x, 0)``"""
        ctx.save_for_backward(x)
        return x.clamp(min=0)


class MyClip(torch.autograd.Function):
    """The text's other Function."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, low: float) -> torch.Tensor:
        """``max(x, low)``"""
        return x.clamp(min=low)


class Mapped(torch.autograd.Function):
    """A Function whose ``symbolic`` is visible in the graph: forward and symbolic compute the same with different operators."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """``max(x, 0)``"""
        return x.clamp(min=0)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        """One node Relu."""
        Mapped.calls += 1
        return g.op("Relu", x)


def handler(g: Any, *args: Any, **kwargs: Any) -> Any:
    """A handler of prim::PythonOp as it is written today."""
    if kwargs["name"] == "MyRelu":
        return g.op("Relu", args[0])
    if kwargs["name"] == "MyClip":
        return g.op("Clip", args[0], g.op("Constant", value_t=torch.tensor(args[1])))
    return symbolic_helper._unimplemented("prim::PythonOp", kwargs["name"])


def clipped_relu(x: torch.Tensor) -> torch.Tensor:
    """Both Functions in a row: ``max(max(x, -1), 0)``."""
    return MyRelu.apply(MyClip.apply(x, -1.0))


def asinh_times(x: torch.Tensor) -> torch.Tensor:
    """``asinh(x) * x``: an operator without a built-in mapping, and one with."""
    return torch.asinh(x) * x


@functools.cache
def default_export() -> tuple[Counter, torch.onnx.ONNXProgram]:
    """One export with everything that the default path ignores: a registration, a mode, and the version of a custom domain."""
    count = Counter()
    options = {"operator_export_type": OperatorExportTypes.ONNX_ATEN, "custom_opsets": {"custom_domain": 2}}
    with registered("aten::asinh", count):
        return count, export_dynamo(asinh_times, X, **options)


def export_foo(*codes: str) -> onnx.ModelProto:
    """Export ``foo_forward(x, y, 2.5, 3)`` as a node ``custom_domain::Foo``, version 2.

    Args:
        codes: the codes of ``parse_args``, one for each parameter.
    """
    _, ours = operators()

    @parse_args(*codes)
    def symbolic(g: Any, a: Any, b: Any, attr1: Any, attr2: Any) -> Any:
        return g.op("custom_domain::Foo", a, b, attr1_f=attr1, attr2_i=attr2).setType(a.type())

    with registered("archaeology::foo_forward", symbolic):
        return export(
            lambda x, y: ours.foo_forward(x, y, 2.5, 3), X, X, custom_opsets={"custom_domain": 2}, opset_version=13
        )
