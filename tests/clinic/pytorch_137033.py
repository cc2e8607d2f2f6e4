"""An operator that takes one dtype, under autocast."""

from __future__ import annotations

import torch

from tests.clinic.tools import refusal


def _add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dtype != b.dtype:
        raise TypeError(f"a is {a.dtype}, b is {b.dtype}")
    return a + b


plain = torch.library.custom_op("clinic::plain_add", _add, mutates_args=())
registered = torch.library.custom_op("clinic::registered_add", _add, mutates_args=())
torch.library.register_autocast("clinic::registered_add", "cpu", torch.float32)


def dtype_of(add: torch.library.CustomOpDef) -> torch.dtype:
    """The sum of a product, which autocast makes bfloat16, and of a float32 tensor."""
    with torch.autocast("cpu", torch.bfloat16):
        return add(torch.ones(2, 2) @ torch.ones(2, 2), torch.ones(2, 2)).dtype


def happens() -> bool:
    return "a is torch.bfloat16, b is torch.float32" in refusal(TypeError, dtype_of, plain)


def way_around() -> None:
    assert dtype_of(registered) == torch.float32
