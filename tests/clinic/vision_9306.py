"""A detection network of torchvision, with today's exporter."""

from __future__ import annotations

import contextlib
import io

import torch
from torchvision.models.detection import ssdlite320_mobilenet_v3_large

from tests.clinic.tools import export, node_types, refusal

IMAGE = torch.rand(3, 64, 64)


def detector() -> torch.nn.Module:
    return ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3).eval()


class WithoutTheEnd(torch.nn.Module):
    """The backbone and the head: everything before boxes are filtered by their scores."""

    def __init__(self) -> None:
        super().__init__()
        model = detector()
        self.backbone, self.head = model.backbone, model.head

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.head(list(self.backbone(image).values()))
        return found["bbox_regression"], found["cls_logits"]


def happens() -> bool:
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):  # it prints the whole graph
        return "data-dependent" in refusal(torch.onnx.OnnxExporterError, export, detector(), ([IMAGE],))


def way_around() -> None:
    program = export(WithoutTheEnd(), (torch.rand(1, 3, 64, 64),))
    assert "Conv" in node_types(program) and "NonMaxSuppression" not in node_types(program)
