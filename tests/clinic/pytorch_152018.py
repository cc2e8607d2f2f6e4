"""Dim.DYNAMIC on a model with attention: were the sizes fixed without a word?"""

from __future__ import annotations

import torch
from torch.export import Dim

from tests.clinic.tools import agrees, export


class Model(torch.nn.Module):
    """Embedding, and attention with itself."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(100, 16)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """[batch, length] to [batch, 1, length, 16]."""
        h = self.embedding(ids)[:, None]
        return torch.nn.functional.scaled_dot_product_attention(h, h, h)


def exported(model: Model) -> torch.onnx.ONNXProgram:
    """With an example of 16 rows of 12."""
    return export(model, (torch.randint(0, 100, (16, 12)),), dynamic_shapes=((Dim.DYNAMIC, Dim.DYNAMIC),))


def happens() -> bool:
    return any(isinstance(size, int) for size in exported(Model()).model.graph.inputs[0].shape)


def way_around() -> None:
    model = Model()
    assert agrees(model, exported(model), torch.randint(0, 100, (3, 7)))
