"""Look things up: files, errors, traces and tables."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch
from torch.onnx import register_custom_op_symbolic

from oplab.archaeology.probes.exports import (
    TORCH_HOME,
    X,
    export,
    export_dynamo,
    fails,
    ops,
    run,
    same,
    warned,
)
from oplab.archaeology.probes.subjects import (
    relic,
)
from oplab.archaeology.probes.table import new, old


@old("pyi_files")
def _() -> str:
    text = (TORCH_HOME / "_C" / "_VariableFunctions.pyi").read_text(encoding="utf-8")
    assert "def asinh(input: Tensor" in text and (TORCH_HOME / "nn" / "functional.pyi").is_file()
    return "asinh is in the first, and the second exists"


@old("ir_header")
def _() -> str:
    text = (TORCH_HOME / "include" / "torch" / "csrc" / "jit" / "ir" / "ir.h").read_text(encoding="utf-8")
    assert "struct Graph" in text and "struct Value" in text
    return "struct Graph is in it"


@old("edit_symbolic_files")
def _() -> str:
    import torch.onnx.symbolic_opset9 as shim
    from torch.onnx._internal.torchscript_exporter import symbolic_opset9 as real

    for module in (shim, real):  # what a line added to the file would do
        module.asinh = relic
        try:
            name = fails(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh", lambda: export(torch.asinh, X))
        finally:
            del module.asinh
    return f"a function asinh in either file: {name}"


@old("elu_removed")
def _() -> str:
    from torch.onnx._internal.torchscript_exporter.registration import registry

    assert ops(export(torch.nn.functional.elu, X)) == ["Elu"]
    kept = registry._registry.pop("aten::elu")
    try:
        return fails(
            torch.onnx.errors.UnsupportedOperatorError, "aten::elu", lambda: export(torch.nn.functional.elu, X)
        )
    finally:
        registry._registry["aten::elu"] = kept


@old("bicubic_files")
def _() -> str:
    import torch.onnx.symbolic_opset11 as shim

    text = Path(inspect.getsourcefile(shim)).read_text(encoding="utf-8")
    assert "torchscript_exporter.symbolic_opset11 import" in text and "bicubic" not in text
    return "the file only imports from another one"


@new("bicubic_files")
def _() -> str:
    from torch.onnx._internal.torchscript_exporter.registration import registry

    function = inspect.unwrap(registry.get_function_group("aten::upsample_bicubic2d").get(11))
    assert '"Resize"' in inspect.getsource(function)
    return f"{function.__name__} writes Resize"


def _future(call: Callable[[], Any]) -> Any:
    with warned() as caught:
        made = call()
    assert any(entry.category is FutureWarning for entry in caught)
    return made


@old("trace_elu")
def _() -> str:
    traced = _future(lambda: torch.jit.trace(torch.nn.ELU(), torch.ones(1)))
    kinds = [entry.kind() for entry in traced.graph.nodes()]
    assert kinds == ["prim::Constant"] * 3 + ["aten::elu"]
    return "three constants and aten::elu"


@new("trace_elu")
def _() -> str:
    targets = [str(entry.target) for entry in torch.export.export(torch.nn.ELU(), (torch.ones(1),)).graph.nodes]
    assert "aten.elu.default" in targets
    return "aten.elu.default"


class Branch(torch.nn.Module):
    """A branch that depends on the data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x + 1`` or ``x - 1``, by the sign of the sum."""
        if bool(x.sum() > 0):
            return x + 1
        return x - 1


@old("script")
def _() -> str:
    scripted = _future(lambda: torch.jit.script(Branch()))
    model = export(scripted, X)
    assert "If" in ops(model)
    same(run(model, -X - 1), -X - 2)
    name = fails(Exception, "ScriptModule", lambda: export_dynamo(scripted, X))
    return f"an If in the graph; the dynamo path: {name}"


@new("script")
def _() -> str:
    class Conditional(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    program = export_dynamo(Conditional(), X)
    assert "If" in [entry.op_type for entry in program.model.graph]
    same(run(program.model_proto, -X - 1), -X - 2)
    return "torch.cond: an If"


@old("set_type_example")
def _() -> str:
    assert "test_aten_embedding_2" in register_custom_op_symbolic.__doc__
    assert not (TORCH_HOME / "test" / "onnx" / "test_operators.py").exists()
    return "named in a docstring; the file is not in the wheel"


@old("operator_table")
def _() -> str:
    versions = [
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == "Clip" and not schema.domain
    ]
    assert {1, 6, 11, 12, 13} <= set(versions)
    return f"Clip: {sorted(versions)}"


@old("netron")
def _() -> str:
    import netron

    assert {"file", "address", "browse"} <= set(inspect.signature(netron.start).parameters)
    return "netron.start(file, address, browse)"
