"""Export: defaults, names, modes and versions."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from typing import Any

import onnx
import torch
from torch.onnx import OperatorExportTypes

from oplab.archaeology.probes.exports import (
    Model,
    X,
    as_printed,
    attributes,
    export,
    export_dynamo,
    fails,
    node,
    ops,
    opsets,
    quiet,
    registered,
    run,
    same,
    warned,
)
from oplab.archaeology.probes.subjects import (
    asinh_times,
    default_export,
    export_foo,
    relic,
)
from oplab.archaeology.probes.table import new, old


@old("export_default")
def _() -> str:
    program = default_export()[1]
    assert program.exported_program is not None
    return f"{type(program).__name__} with {[entry.op_type for entry in program.model.graph]}"


@new("export_default")
def _() -> str:
    name = fails(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh", lambda: export(torch.asinh, X))
    return f"dynamo=False without a registration: {name}"


@old("to_onnx_pass")
def _() -> str:
    assert callable(torch._C._jit_pass_onnx)
    from torch.onnx._internal.torchscript_exporter import utils

    assert "_jit_pass_onnx(graph, operator_export_type)" in inspect.getsource(utils)
    return "torch._C._jit_pass_onnx"


@old("names")
def _() -> str:
    model = export(torch.relu, X, input_names=None, output_names=None)
    names = [value.name for value in model.graph.input]
    assert names != ["0"]
    return f"relu's input is called {names[0]!r}"


@new("names")
def _() -> str:
    model = export(torch.add, X, X, input_names=["a", "b"], output_names=["sum"])
    names = [value.name for value in [*model.graph.input, *model.graph.output]]
    assert names == ["a", "b", "sum"]
    return str(names)


@old("dynamic_axes")
def _() -> str:
    model = export(torch.relu, X, dynamic_axes={"x": {0: "n"}})
    same(run(model, torch.cat([X, X])), torch.cat([X, X]).relu())
    return "exported with 2 rows, runs with 4"


@new("dynamic_axes")
def _() -> str:
    program = export_dynamo(torch.relu, X, dynamic_shapes=(({0: "n"},),), input_names=["x"])
    same(run(program.model_proto, torch.cat([X, X])), torch.cat([X, X]).relu())
    return "exported with 2 rows, runs with 4"


@old("no_grad")
def _() -> str:
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        without = export(layer, X)
    assert without.graph.SerializeToString() == export(layer, X).graph.SerializeToString()
    return "the two graphs are equal, byte for byte"


@old("mode_raw")
def _() -> str:
    return fails(AttributeError, "RAW", lambda: OperatorExportTypes.RAW)


@new("mode_raw")
def _() -> str:
    with quiet():
        traced = torch.jit.trace(Model(torch.asinh), X)
    kinds = [entry.kind() for entry in traced.graph.nodes()]
    assert kinds == ["aten::asinh"]
    targets = [str(entry.target) for entry in torch.export.export(Model(torch.asinh), (X,)).graph.nodes]
    assert "aten.asinh.default" in targets
    return f"{kinds}; torch.export: aten.asinh.default"


def modes(function: Callable[..., Any], mode: str, **options: Any) -> onnx.ModelProto:
    """Export ``function(X)`` in one of the modes of operator_export_type."""
    return export(function, X, operator_export_type=getattr(OperatorExportTypes, mode), **options)


@old("mode_onnx")
def _() -> str:
    return fails(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh", lambda: modes(asinh_times, "ONNX"))


@old("mode_aten")
def _() -> str:
    model = modes(asinh_times, "ONNX_ATEN")
    names = [attributes(entry)["operator"].decode() for entry in model.graph.node]
    assert set(ops(model)) == {"org.pytorch.aten::ATen"} and names == ["asinh", "mul"]
    fails(Exception, "org.pytorch.aten:ATen", lambda: run(model, X))
    return f"{set(ops(model))} with operator = {names}"


@old("mode_fallback")
def _() -> str:
    model = modes(lambda x: torch.triu(x) * x, "ONNX_ATEN_FALLBACK", opset_version=13)
    mapped = modes(lambda x: torch.triu(x) * x, "ONNX_ATEN_FALLBACK", opset_version=14)
    assert ops(model) == ["org.pytorch.aten::ATen", "Mul"] and ops(mapped) == ["Trilu", "Mul"]
    return f"triu at opset 13: {ops(model)[0]}, at 14: {ops(mapped)[0]}"


@new("mode_fallback", "mode_fallthrough")
def _() -> str:
    with registered("aten::asinh", relic):
        model = modes(asinh_times, "ONNX")
    assert ops(model) == ["Asinh", "Mul"]
    same(run(model, X), asinh_times(X))
    return f"{ops(model)} runs"


class Listed(torch.nn.Module):
    """The text's example: a sum in a list."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """``[sum(x)]``"""
        return [torch.sum(x)]


@old("mode_fallthrough")
def _() -> str:
    assert ops(modes(asinh_times, "ONNX_FALLTHROUGH")) == ["org.pytorch.aten::asinh", "Mul"]
    with quiet():
        scripted = torch.jit.script(Listed())
    model = export(scripted, X, operator_export_type=OperatorExportTypes.ONNX_FALLTHROUGH)
    assert ops(model) == ["ReduceSum", "SequenceConstruct"]
    return f"asinh: org.pytorch.aten::asinh; the text's list: {ops(model)[-1]}"


@old("mode_default")
def _() -> str:
    program = default_export()[1]
    found = [entry.op_type for entry in program.model.graph]
    assert found == ["Asinh", "Mul"]
    return f"ONNX_ATEN on the default path: {found}"


@new("mode_default")
def _() -> str:
    with warned() as caught:
        options = {"dynamo": False, "operator_export_type": OperatorExportTypes.ONNX_ATEN}
        torch.onnx.export(Model(torch.relu), (X,), io.BytesIO(), **options)
    texts = [str(entry.message) for entry in caught if issubclass(entry.category, DeprecationWarning)]
    assert any("operator_export_type" in text for text in texts)
    return "dynamo=False takes it, with a DeprecationWarning"


@old("custom_opsets")
@new("custom_opsets_default")
def _() -> str:
    found = opsets(export_foo("v", "v", "f", "i"))
    assert found["custom_domain"] == 2
    return str(found)


@old("custom_opsets_default")
def _() -> str:
    program = default_export()[1]
    assert set(program.model.opset_imports) == {""}
    return f"{program.model.opset_imports}"


@old("foo_model")
def _() -> str:
    text = "import torch\nclass FooModel(torch.nn.Module):\n    def __init__(self): super(FooModule, self).__init__()\nFooModel()"
    return fails(NameError, "FooModule", lambda: as_printed(text))


@new("foo_model")
def _() -> str:
    text = "import torch\nclass FooModel(torch.nn.Module):\n    def __init__(self): super().__init__()\nFooModel()"
    as_printed(text)
    return "runs"


@old("foo_forward")
def _() -> str:
    found = node(export_foo("v", "v", "f", "i"), "Foo")
    assert attributes(found) == {"attr1": 2.5, "attr2": 3}
    return f"{found.domain}::{found.op_type} {attributes(found)}"


@old("error_message")
@new("error_message")
def _() -> str:
    assert issubclass(torch.onnx.errors.UnsupportedOperatorError, RuntimeError)
    return fails(
        torch.onnx.errors.UnsupportedOperatorError,
        "Exporting the operator 'aten::asinh' to ONNX opset version",
        lambda: export(torch.asinh, X),
    )
