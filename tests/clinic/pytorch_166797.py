"""Two convolutions of one tensor, each before a batch normalisation: did one's bias replace the other's?"""

from __future__ import annotations

import torch
from torch import nn

from tests.clinic.tools import agrees, export


class Model(nn.Module):
    """The two branches differ in their bias only."""

    def __init__(self):
        super().__init__()
        self.left = nn.Sequential(nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.right = nn.Sequential(nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8))
        nn.init.constant_(self.left[1].bias, 1)
        nn.init.constant_(self.right[1].bias, -1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Both."""
        return self.left(x), self.right(x)


X = torch.linspace(-1, 1, 48).reshape(1, 3, 4, 4)


def happens() -> bool:
    model = Model()
    return not agrees(model, export(model, (X,)), X)


def way_around() -> None:
    model = Model()
    assert agrees(model, export(model, (X,), optimize=False), X)
