"""Values that are added at an index that occurs twice, with both exporters."""

from __future__ import annotations

import io

import numpy as np
import onnx
import torch

from tests.clinic.tools import agrees, export, run

ARGS = torch.ones(3, 2), torch.tensor([1, 0, 1]), torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


class IndexPut(torch.nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_put((index,), values, accumulate=True)


class IndexAdd(torch.nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_add(0, index, values)


class ScatterReduce(torch.nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(0, index[:, None].expand_as(values), values, "sum")


class EveryRow(torch.nn.Module):
    """The index is a constant that names each row once."""

    def forward(self, x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_put((torch.arange(3),), values, accumulate=True)


def by_torchscript(model: torch.nn.Module) -> np.ndarray:
    """What the file of the TorchScript exporter computes."""
    file = io.BytesIO()
    torch.onnx.export(model, ARGS, file, dynamo=False, opset_version=18)
    return run(onnx.load_from_string(file.getvalue()), *ARGS)[0]


def happens() -> bool:
    right = IndexPut()(*ARGS)
    return not np.allclose(by_torchscript(IndexPut()), right) and not np.allclose(by_torchscript(IndexAdd()), right)


def way_around() -> None:
    assert np.allclose(by_torchscript(ScatterReduce()), IndexPut()(*ARGS))
    for model in (IndexPut(), IndexAdd(), ScatterReduce()):
        assert agrees(model, export(model, ARGS), *ARGS)
    x, _, values = ARGS
    assert agrees(EveryRow(), export(EveryRow(), (x, values), optimize=False), x, values)
