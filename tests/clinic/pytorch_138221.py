"""An operator that writes to its argument, with today's exporter."""

from __future__ import annotations

import torch
from onnxscript import opset18 as op

from tests.clinic.tools import agrees, export, refusal


@torch.library.custom_op("clinic::double_", mutates_args=("x",))
def double_(x: torch.Tensor) -> None:
    x.mul_(2)


@torch.library.custom_op("clinic::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled.register_fake(torch.empty_like)


class Writes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        double_(y)
        return y


class Returns(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return doubled(x + 1)


def translation(x):
    return op.Mul(x, op.Constant(value_float=2.0))


TABLE = {torch.ops.clinic.doubled.default: translation, torch.ops.clinic.double_.default: translation}


def happens() -> bool:
    given = (Writes(), (torch.ones(3),))
    message = refusal(torch.onnx.OnnxExporterError, export, *given, custom_translation_table=TABLE)
    return "auto_functionalized" in message


def way_around() -> None:
    model, x = Returns(), torch.randn(3)
    assert agrees(model, export(model, (x,), custom_translation_table=TABLE), x)
