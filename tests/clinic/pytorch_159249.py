"""RMSNorm: the TorchScript exporter has no symbolic for it."""

from __future__ import annotations

import io

import torch

from tests.clinic.tools import agrees, export, node_types, refusal

MODEL, X = torch.nn.RMSNorm(8), torch.linspace(-2, 3, 16).reshape(2, 8)


def happens() -> bool:
    message = refusal(
        torch.onnx.errors.UnsupportedOperatorError,
        torch.onnx.export,
        MODEL,
        (X,),
        io.BytesIO(),
        opset_version=20,
        dynamo=False,
    )
    return "aten::rms_norm" in message


def way_around() -> None:
    program = export(MODEL, (X,), opset_version=23)
    assert node_types(program) == ["RMSNormalization"]
    assert agrees(MODEL, program, X)
    older = export(MODEL, (X,), opset_version=20)
    assert "RMSNormalization" not in node_types(older)
    assert agrees(MODEL, older, X)
