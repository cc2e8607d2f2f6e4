"""An `if` on a value that is computed: torch.export cannot know which side to take."""

from __future__ import annotations

import torch

from tests.clinic.tools import agrees, export, node_types, refusal


class If(torch.nn.Module):
    """Python decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x + 1 where the sum is positive, else x - 1."""
        if x.sum().item() > 0:
            return x + 1
        return x - 1


class Cond(torch.nn.Module):
    """The graph decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same."""
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


X = torch.tensor([1.0, 2.0])


def happens() -> bool:
    return "Could not guard on data-dependent expression" in refusal(torch.onnx.OnnxExporterError, export, If(), (X,))


def way_around() -> None:
    program = export(Cond(), (X,))
    assert "If" in node_types(program)
    assert agrees(Cond(), program, X)
    assert agrees(Cond(), program, -X)
