"""An operator with a composite kernel is taken apart before its translation is looked for."""

from __future__ import annotations

import torch
from onnxscript import opset20 as op

from tests.clinic.tools import export, node_types

_LIBRARY = torch.library.Library("clinic", "FRAGMENT")
_LIBRARY.define("composite(Tensor a, Tensor b) -> Tensor")
_LIBRARY.impl("composite", lambda a, b: a * b, "CompositeImplicitAutograd")
_LIBRARY.define("own_kernel(Tensor a, Tensor b) -> Tensor")
_LIBRARY.impl("own_kernel", lambda a, b: a * b, "CPU")
torch.library.register_fake("clinic::own_kernel", lambda a, b: torch.empty_like(a))


def translation(a, b):
    """Another node than Mul, so that its use can be seen."""
    return op.Div(a, op.Reciprocal(b))


class Model(torch.nn.Module):
    """Calls one of the two."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a * b."""
        return getattr(torch.ops.clinic, self.name)(a, b)


def exported(name: str) -> list[str]:
    """The nodes of an export that has a translation for the operator."""
    table = {getattr(torch.ops.clinic, name).default: translation}
    return node_types(export(Model(name), (torch.ones(2), torch.ones(2)), custom_translation_table=table))


def happens() -> bool:
    return exported("composite") == ["Mul"]  # the translation was not used


def way_around() -> None:
    assert exported("own_kernel") == ["Reciprocal", "Div"]
