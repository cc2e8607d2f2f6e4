"""masked_scatter with a mask that is broadcast: are the values in the wrong places?"""

from __future__ import annotations

import torch

from tests.clinic.tools import agrees, export


class Scatter(torch.nn.Module):
    """The mask has a last size of 1."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """Rows of x are replaced."""
        return x.masked_scatter(mask.unsqueeze(-1), source)


class Expanded(torch.nn.Module):
    """The mask is expanded first."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """The same."""
        return x.masked_scatter(mask.unsqueeze(-1).expand_as(x), source)


ARGS = (torch.zeros(1, 8, 8), torch.arange(8)[None] % 2 == 0, torch.arange(32.0).reshape(4, 8) + 1)


def happens() -> bool:
    return not agrees(Scatter(), export(Scatter(), ARGS), *ARGS)


def way_around() -> None:
    assert agrees(Expanded(), export(Expanded(), ARGS), *ARGS)
