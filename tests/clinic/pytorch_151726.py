"""A module that is exported in training mode."""

from __future__ import annotations

import torch

from tests.clinic.tools import export, node_types, run


class Net(torch.nn.Sequential):
    def __init__(self) -> None:
        super().__init__(torch.nn.Conv2d(3, 4, 3), torch.nn.Dropout(0.5))


def happens() -> bool:
    """The file drops values each time that it runs."""
    x = torch.rand(2, 3, 8, 8)
    program = torch.onnx.export(Net().train(), (x,), dynamo=True, verbose=False)
    return bool((run(program.model_proto, x)[0] != run(program.model_proto, x)[0]).any())


def way_around() -> None:
    assert "Dropout" not in node_types(export(Net(), (torch.rand(2, 3, 8, 8),)))
