"""scaled_dot_product_attention: nine nodes, or one?"""

from __future__ import annotations

import torch

from tests.clinic.tools import agrees, export, node_types


class Model(torch.nn.Module):
    """Attention alone."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Each is [batch, heads, length, size]."""
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


ARGS = tuple(torch.sin(torch.arange(64.0) * step).reshape(1, 2, 4, 8) for step in (1, 2, 3))


def happens() -> bool:
    return node_types(export(Model(), ARGS, opset_version=23)) != ["Attention"]


def way_around() -> None:
    assert agrees(Model(), export(Model(), ARGS, opset_version=23), *ARGS)
    decomposed = export(Model(), ARGS, opset_version=20)
    assert "Softmax" in node_types(decomposed)
    assert agrees(Model(), decomposed, *ARGS)
