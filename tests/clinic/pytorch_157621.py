"""An example with batch size 1: was the batch fixed to 1?"""

from __future__ import annotations

import torch

from tests.clinic.tools import agrees, export


def exported(model: torch.nn.Module, batch: int) -> torch.onnx.ONNXProgram:
    """With an example of this batch size, and a batch that may differ."""
    return export(model, (torch.randn(batch, 4),), dynamic_shapes=({0: "batch"},))


def happens() -> bool:
    return exported(torch.nn.Linear(4, 4), 1).model.graph.inputs[0].shape[0] == 1


def way_around() -> None:
    model = torch.nn.Linear(4, 4)
    program = exported(model, 2)
    assert agrees(model, program, torch.randn(1, 4))
    assert agrees(model, program, torch.randn(5, 4))
