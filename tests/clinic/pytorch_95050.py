"""A write through a view, with the TorchScript exporter."""

from __future__ import annotations

import io

import numpy as np
import onnx
import torch

from tests.clinic.tools import agrees, export, run

X = torch.arange(6.0)


class ThroughView(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.view(3, 2).masked_fill_(self.mask, 7.0)
        return y


class WithoutAlias(ThroughView):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).view(3, 2).masked_fill(self.mask, 7.0).view(6)


def exported(model: torch.nn.Module) -> np.ndarray:
    """What the file of the TorchScript exporter computes."""
    file = io.BytesIO()
    torch.onnx.export(model.eval(), (X,), file, dynamo=False)
    return run(onnx.load_from_string(file.getvalue()), X)[0]


def happens() -> bool:
    return np.allclose(exported(ThroughView()), X * 2)


def way_around() -> None:
    assert np.allclose(exported(WithoutAlias()), ThroughView()(X))
    assert agrees(ThroughView(), export(ThroughView(), (X,)), X)
