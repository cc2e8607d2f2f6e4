"""Register a mapping."""

from __future__ import annotations

import functools
from typing import Any

import onnx
import onnxscript
import torch
from onnxscript import FLOAT, opset18
from torch.onnx import register_custom_op_symbolic

from oplab.archaeology.probes.exports import (
    X,
    as_printed,
    export,
    export_dynamo,
    fails,
    ops,
    registered,
    run,
    same,
)
from oplab.archaeology.probes.subjects import (
    Counter,
    clipped_relu,
    default_export,
    handler,
    operators,
    relic,
)
from oplab.archaeology.probes.table import new, old


@old("register_op")
def _() -> str:
    def call() -> None:
        import torch.onnx.symbolic_registry  # noqa: F401

    return fails(ModuleNotFoundError, "torch.onnx.symbolic_registry", call)


@new("register_op", "register_op_undefined", "edit_symbolic_files")
def _() -> str:
    with registered("aten::asinh", relic):
        model = export(torch.asinh, X)
    onnx.checker.check_model(model, full_check=True)
    same(run(model, X), torch.asinh(X))
    return f"{ops(model)}, as in PyTorch"


@old("register_op_undefined")
def _() -> str:
    text = "from torch.onnx import register_custom_op_symbolic\nregister_op('asinh', None, '', 9)"
    return fails(NameError, "register_op", lambda: as_printed(text))


@old("register_op_version")
def _() -> str:
    with registered("aten::asinh", relic, 9):
        found = {opset: ops(export(torch.asinh, X, opset_version=opset)) for opset in (8, 9, 13, 20)}
        fails(Exception, "Asinh", lambda: onnx.checker.check_model(export(torch.asinh, X, opset_version=8)))
    assert set(map(tuple, found.values())) == {("Asinh",)}
    return f"registered at 9, exported at {list(found)}; at 8 the model is invalid"


@new("register_op_version")
def _() -> str:
    def refuse(g: Any, x: Any) -> Any:
        raise torch.onnx.errors.UnsupportedOperatorError("aten::asinh", g.opset, 9)

    with registered("aten::asinh", relic, 9), registered("aten::asinh", refuse, 8):
        for opset in (7, 8):
            name = fails(RuntimeError, "asinh", functools.partial(export, torch.asinh, X, opset_version=opset))
        assert ops(export(torch.asinh, X, opset_version=9)) == ["Asinh"]
    return f"opset 9 works, 7 and 8: {name}"


@old("register_custom_op_symbolic")
def _() -> str:
    _, ours = operators()
    with registered("archaeology::foo_forward", lambda g, a, b, *rest: g.op("Add", a, b)):
        found = ops(export(lambda x: ours.foo_forward(x, x, 1.0, 1), X))
    assert found == ["Add"]
    name = fails(ValueError, "cannot be modified", lambda: register_custom_op_symbolic("onnx::Relu", relic, 9))
    return f"an operator of another domain: {found}; the domain onnx: {name}"


@old("register_default_export")
def _() -> str:
    count, program = default_export()
    assert count.calls == 0
    return f"calls on the default path: {count.calls}"


def _negated(x: FLOAT["..."]) -> FLOAT["..."]:  # noqa: UP037
    """asinh(x) = -asinh(-x): a translation that shows in the graph."""
    return opset18.Neg(opset18.Asinh(opset18.Neg(x)))


@new("register_default_export")
def _() -> str:
    count = Counter()
    with registered("aten::asinh", count):
        export(torch.asinh, X)
    assert count.calls == 1
    table = {torch.ops.aten.asinh.default: onnxscript.script()(_negated)}
    program = export_dynamo(torch.asinh, X, custom_translation_table=table)
    found = [entry.op_type for entry in program.model.graph]
    assert found == ["Neg", "Asinh", "Neg"], found
    return f"calls with dynamo=False: 1; the translation table gives {found}"


@old("prim_forbidden")
def _() -> str:
    count = Counter(handler)
    with registered("prim::PythonOp", count, 1):
        export(clipped_relu, X)
    assert count.calls == 2
    return "prim::PythonOp is registered and called"
