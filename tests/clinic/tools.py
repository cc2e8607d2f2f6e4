"""What the cases share: an export, a run, and whether two results agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper

from oplab import ops
from oplab.toolchain.one_file import compile_library
from tests.support.models import model_of

CPP = Path(__file__).parents[2] / "notebooks" / "cpp"


def export(model: torch.nn.Module, args: tuple, **options: Any) -> torch.onnx.ONNXProgram:
    """The export of today's exporter, in evaluation mode."""
    return torch.onnx.export(model.eval(), args, dynamo=True, verbose=False, **options)


def node_types(program: torch.onnx.ONNXProgram) -> list[str]:
    """The operators of the graph, in its order."""
    return [node.op_type for node in program.model.graph]


def run(model: onnx.ModelProto, *values: Any) -> list[np.ndarray]:
    """What ONNX Runtime computes, without any custom-op library."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [end.name for end in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, values), strict=True)))


def agrees(model: torch.nn.Module, program: torch.onnx.ONNXProgram, *args: torch.Tensor) -> bool:
    """Whether ONNX Runtime and PyTorch compute the same from the same inputs."""
    with torch.no_grad():
        wanted = model.eval()(*args)
    found = run(program.model_proto, *args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    return all(np.allclose(one, other.numpy(), rtol=1e-3, atol=1e-4) for one, other in zip(found, wanted, strict=True))


def refusal(kind: type[Exception] | tuple[type[Exception], ...], call: Any, *args: Any, **options: Any) -> str:
    """The message with which a call ends, or an empty string where it succeeds."""
    try:
        call(*args, **options)
    except kind as error:
        return str(error)
    return ""


def run_custom(source: str, name: str, domain: str, outputs: dict[str, str], /, **given: Any) -> list[np.ndarray]:
    """What one custom operator computes whose library is made from a C++ file.

    Args:
        source: a file beside the cases, or of notebooks/cpp.
        name: the operator.
        domain: its domain.
        outputs: names and types.
        given: arrays are its inputs, everything else is an attribute.
    """
    beside = Path(__file__).with_name(source)
    library = compile_library(beside if beside.is_file() else CPP / source, "ort")
    feed = {key: value for key, value in given.items() if isinstance(value, np.ndarray)}
    attributes = {key: value for key, value in given.items() if key not in feed}
    node = helper.make_node(name, list(feed), list(outputs), domain=domain, **attributes)
    types = {key: value.dtype for key, value in feed.items()}
    model = model_of([node], types, outputs, domains=((domain, 1),))
    return ops.session(model, libraries=[library]).run(None, feed)
