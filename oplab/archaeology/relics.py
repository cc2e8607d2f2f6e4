"""An old code base, for the exercises of chapter 09: a library's operator, and Functions that have no ``symbolic``."""

from __future__ import annotations

import functools
from typing import Any

import torch


@functools.cache
def load() -> torch.library.Library:
    """Make ``torch.ops.relics.scale(x, factor)`` available: ``x * factor``. Calling it again does nothing."""
    library = torch.library.Library("relics", "DEF")
    library.define("scale(Tensor x, float factor) -> Tensor")
    library.impl("scale", lambda x, factor: x * factor, "CompositeExplicitAutograd")
    return library  # the operator lives as long as this object, and the cache keeps it


class MyClip(torch.autograd.Function):
    """``MyClip.apply(x, low, high)``"""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, low: float, high: float) -> torch.Tensor:
        """``x`` limited to [low, high]; same shape and dtype."""
        return x.clamp(low, high)


class MyRelu(torch.autograd.Function):
    """``MyRelu.apply(x)``"""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """``max(x, 0)``; same shape and dtype."""
        return x.clamp(min=0)


class MyScale(torch.autograd.Function):
    """``MyScale.apply(x, factor)``"""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        """``x * factor``; same shape and dtype."""
        return x * factor


class MySwish(torch.autograd.Function):
    """``MySwish.apply(x)``: a Function without a mapping."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """``x * sigmoid(x)``; same shape and dtype."""
        return x * torch.sigmoid(x)
