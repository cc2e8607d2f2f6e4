"""grid_sample of a volume below opset 20."""

from __future__ import annotations

import onnx
import torch
from onnx.reference import ReferenceEvaluator

from tests.clinic.tools import agrees, export, refusal

X, GRID = torch.rand(1, 2, 4, 5, 6), torch.rand(1, 3, 4, 5, 3) * 2 - 1


class Sample(torch.nn.Module):
    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.grid_sample(x, grid, align_corners=False)


def exported(opset: int) -> torch.onnx.ONNXProgram:
    return export(Sample(), (X, GRID), opset_version=opset, input_names=["x", "grid"])


def refused(model: onnx.ModelProto) -> bool:
    """ONNX Runtime is more tolerant than ONNX; its reference is not."""
    feeds = {"x": X.numpy(), "grid": GRID.numpy()}
    return bool(refusal(Exception, ReferenceEvaluator(model).run, None, feeds))


def happens() -> bool:
    return refused(exported(18).model_proto)


def way_around() -> None:
    program = exported(20)
    assert not refused(program.model_proto) and agrees(Sample(), program, X, GRID)
