"""How the probes export, register, run and look at models."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch.onnx import register_custom_op_symbolic, unregister_custom_op_symbolic

X = torch.linspace(-2, 2, 6).reshape(2, 3)
TORCH_HOME = Path(torch.__file__).parent


class Model(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """What the function returns."""
        return self.function(*inputs)


def export(function: Any, *inputs: torch.Tensor, **options: Any) -> onnx.ModelProto:
    """Export over the TorchScript path, without output on stdout and without warnings."""
    model = function if isinstance(function, (torch.nn.Module, torch.jit.ScriptModule)) else Model(function)
    names = {"input_names": ["x", "y"][: len(inputs)], "output_names": ["out"]}
    buffer = io.BytesIO()
    with quiet():
        torch.onnx.export(model, inputs, buffer, dynamo=False, **{**names, **options})
    return onnx.load_model_from_string(buffer.getvalue())


def export_dynamo(function: Any, *inputs: torch.Tensor, **options: Any) -> torch.onnx.ONNXProgram:
    """Export over the dynamo path, which is the default: no ``dynamo`` argument is passed."""
    model = function if isinstance(function, torch.nn.Module) else Model(function)
    with quiet():
        program = torch.onnx.export(model, inputs, verbose=False, **options)
    assert isinstance(program, torch.onnx.ONNXProgram)
    return program


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, and no graph on stdout when an export fails."""
    log = torch._C._jit_set_onnx_log_enabled
    torch._C._jit_set_onnx_log_enabled = lambda on: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch._C._jit_set_onnx_log_enabled = log


@contextmanager
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """All Python warnings of a block as a list, and no graph on stdout."""
    with quiet(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


@contextmanager
def registered(name: str, function: Callable[..., Any], version: int = 9) -> Iterator[None]:
    """A registration for the length of a block. Afterwards the registry is as before, even if the name was not registered.

    Args:
        name: ``aten::asinh``; a name without a namespace, ``::prim_PythonOp``, as old texts write it.
        version: the opset at which it is registered.
    """
    from torch.onnx._internal.torchscript_exporter.registration import registry

    full = f"aten{name}" if name.startswith("::") else name
    before = full in registry.all_functions()
    register_custom_op_symbolic(name, function, version)
    try:
        yield
    finally:
        unregister_custom_op_symbolic(name, version)
        if not before:  # unregistering leaves an empty entry, on which the next export fails with another error
            registry._registry.pop(full, None)


def ops(model: onnx.ModelProto) -> list[str]:
    """The node types, custom ones as ``domain::Type``, without constants."""
    names = [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.graph.node]
    return [name for name in names if name != "Constant"]


def node(model: onnx.ModelProto, type: str) -> onnx.NodeProto:
    """The first node of a type."""
    return next(node for node in model.graph.node if node.op_type == type)


def attributes(found: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes by name, as Python values."""
    return {entry.name: onnx.helper.get_attribute_value(entry) for entry in found.attribute}


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """The versions that a model imports, by domain."""
    return {entry.domain: entry.version for entry in model.opset_import}


def run(model: onnx.ModelProto | bytes, *arrays: Any, library: Path | None = None) -> np.ndarray:
    """Run a model in ONNX Runtime and return its first output.

    Args:
        arrays: an array for each input, in the model's order.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if library:
        options.register_custom_ops_library(str(library))
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    feeds = zip((value.name for value in session.get_inputs()), arrays, strict=True)
    return session.run(None, {name: np.asarray(array) for name, array in feeds})[0]


def fails(kind: type[BaseException] | tuple[type[BaseException], ...], words: str, call: Callable[[], Any]) -> str:
    """Expect an exception, and return the name of its type.

    Args:
        words: a part of the expected message.
    """
    try:
        call()
    except kind as error:
        assert words in str(error), f"{words!r} is not in: {error}"
        return type(error).__name__
    raise AssertionError(f"nothing was raised, {words!r} was expected")


def as_printed(text: str) -> None:
    """Run a snippet as its own file would run: without this module's ``from __future__ import annotations``."""
    exec(compile(text, "note", "exec", dont_inherit=True), {"__name__": "note"})


def same(got: Any, expected: Any) -> None:
    """Assert that two arrays or tensors have equal shapes and close values (relative 1e-5, absolute 1e-6)."""
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5, atol=1e-6)


def stderr_of(call: Callable[[], Any]) -> str:
    """What a call writes to the stderr of the process, from Python or C++."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            call()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace")
