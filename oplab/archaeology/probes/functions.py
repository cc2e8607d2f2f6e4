"""Functions without a symbolic method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import torch
from torch.onnx import symbolic_helper

from oplab.archaeology.probes.exports import (
    X,
    export,
    fails,
    ops,
    registered,
    run,
    same,
    stderr_of,
)
from oplab.archaeology.probes.subjects import (
    Counter,
    MyClip,
    MyRelu,
    clipped_relu,
    handler,
)
from oplab.archaeology.probes.table import new, old


@old("prim_pythonop")
def _() -> str:
    count = Counter(handler)
    with registered("::prim_PythonOp", count, 1):
        model = export(clipped_relu, X)
        same(run(model, X), clipped_relu(X))
        name = fails(RuntimeError, "Couldn't export Python operator", lambda: _not_inlined(clipped_relu))
    assert count.calls == 0 and ops(model) == ["Clip", "Clip"]
    return f"calls: 0, and the output is right all the same; without inlining: {name}"


@new("prim_pythonop", "prim_forbidden")
def _() -> str:
    count = Counter(handler)
    with registered("prim::PythonOp", count, 1):
        model = _not_inlined(clipped_relu)
    assert count.calls == 2 and ops(model) == ["Clip", "Relu"]
    same(run(model, X), clipped_relu(X))
    return f"calls: 2, {ops(model)}"


def _not_inlined(function: Any, **options: Any) -> onnx.ModelProto:
    return export(function, X, autograd_inlining=False, **options)


@old("pythonop_inlining")
def _() -> str:
    model = export(clipped_relu, X)
    assert ops(model) == ["Clip", "Clip"]
    return f"no handler at all, and the export gives {ops(model)}"


@new("pythonop_inlining")
def _() -> str:
    return fails(RuntimeError, "Couldn't export Python operator MyClip", lambda: _not_inlined(clipped_relu))


@old("pythonop_signature")
def _() -> str:
    seen = []

    def by_the_note(g: Any, n: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((type(n).__name__, len(args)))
        return g.op("Relu", n)

    with registered("prim::PythonOp", by_the_note, 1):
        export(MyRelu.apply, X)
    assert seen == [("Value", 0)]
    return "n is a Value, and args is empty"


@new("pythonop_signature")
def _() -> str:
    seen = []

    def today(g: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((g.original_node.kind(), len(args)))
        return g.op("Relu", args[0])

    with registered("prim::PythonOp", today, 1):
        export(MyRelu.apply, X)
    assert seen == [("prim::PythonOp", 1)]
    return f"g.original_node.kind() is {seen[0][0]}"


@old("pythonop_name")
def _() -> str:
    seen = []

    def look(g: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["name"])
        assert kwargs["module"] == MyClip.__module__
        return handler(g, *args, **kwargs)

    with registered("prim::PythonOp", look, 1):
        export(clipped_relu, X)
    assert seen == ["MyClip", "MyRelu"]
    return str(seen)


def _typed(type_of: Callable[[Any, Any], Any]) -> onnx.ModelProto:
    """A custom node whose type is set, exported with a dynamic first axis."""

    def symbolic(g: Any, *args: Any, **kwargs: Any) -> Any:
        return g.op("archaeology::MyRelu", args[0]).setType(type_of(g, args[0]))

    with registered("prim::PythonOp", symbolic, 1):
        return export(MyRelu.apply, X, dynamic_axes={"x": {0: "n"}})


def _sizes(model: onnx.ModelProto) -> list[Any]:
    return [dim.dim_param or dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]


@old("node_type")
def _() -> str:
    name = fails(AttributeError, "type", lambda: _typed(lambda g, x: g.original_node.type()))
    sizes = _sizes(_typed(lambda g, x: g.original_node.output().type()))
    assert sizes == [2, 3]
    return f"n.type(): {name}; the output's type on a dynamic axis: {sizes}"


@new("node_type")
def _() -> str:
    sizes = _sizes(_typed(lambda g, x: x.type()))
    assert sizes == ["n", 3]
    return f"the input's type: {sizes}"


@old("set_type")
def _() -> str:
    def untyped(g: Any, *args: Any, **kwargs: Any) -> Any:
        return g.op("archaeology::MyRelu", args[0])

    with registered("prim::PythonOp", untyped, 1):
        text = stderr_of(lambda: export(MyRelu.apply, X))
    assert "shape inference of archaeology::MyRelu type is missing" in text
    assert stderr_of(lambda: _typed(lambda g, x: x.type())) == ""
    return "without: a warning; with: none"


@old("node_outputs")
def _() -> str:
    seen = []

    def look(g: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = [out.requiresGrad() for out in g.original_node.outputs()]
        seen.append((outputs, args[0].requiresGrad()))
        return handler(g, *args, **kwargs)

    with registered("prim::PythonOp", look, 1):
        export(MyRelu.apply, X.clone().requires_grad_())
        export(MyRelu.apply, X)
    assert seen == [([True], True), ([False], False)]
    return "requiresGrad() of output and input: True, then False"


@old("is_value")
def _() -> str:
    seen = []

    def look(g: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append([symbolic_helper._is_value(arg) for arg in args])
        return handler(g, *args, **kwargs)

    with registered("prim::PythonOp", look, 1):
        export(lambda x: MyClip.apply(x, -1.0), X)
    assert seen == [[True, False]]
    return "MyClip(x, -1.0): [True, False]"


class Unknown(torch.autograd.Function):
    """A Function that :func:`handler` does not know."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """``x + 1``"""
        return x + 1


@old("unimplemented")
@new("unimplemented")
def _() -> str:
    with registered("prim::PythonOp", handler, 1):
        return fails(torch.onnx.errors.OnnxExporterError, "Unknown", lambda: export(Unknown.apply, X))


@old("returns_none")
def _() -> str:
    with registered("aten::asinh", lambda g, x: None):
        return fails(RuntimeError, "Couldn't export operator aten::asinh", lambda: export(torch.asinh, X))


@new("returns_none")
def _() -> str:
    def refuse(g: Any, x: Any) -> Any:
        raise torch.onnx.errors.OnnxExporterError("asinh needs a float")

    with registered("aten::asinh", refuse):
        return fails(RuntimeError, "asinh needs a float", lambda: export(torch.asinh, X))


@old("function_backward")
def _() -> str:
    x = X.clone().requires_grad_()
    return fails(NotImplementedError, "backward", lambda: MyRelu.apply(x).sum().backward())
