"""A rounding error in a score, and which boxes non-maximum suppression keeps."""

from __future__ import annotations

import numpy as np
import torch
from onnx import helper
from torchvision.ops import nms

from tests.clinic.tools import run
from tests.support.models import model_of

BOXES = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [30, 30, 40, 40]], np.float32)
SCORES = np.array([0.9, np.nextafter(np.float32(0.9), np.float32(1)), 0.5], np.float32)
MODEL = model_of(
    [helper.make_node("NonMaxSuppression", ["boxes", "scores", "many", "iou"], ["kept"])],
    {"boxes": "f4", "scores": "f4", "many": "i8", "iou": "f4"},
    {"kept": "i8"},
)


def kept(scores: np.ndarray) -> list[int]:
    """What ONNX Runtime keeps."""
    many, iou = np.array([10]), np.array([0.5], np.float32)
    return run(MODEL, BOXES[None], scores[None, None], many, iou)[0][:, 2].tolist()


def happens() -> bool:
    """The same boxes, and scores that differ in the last bit."""
    same = SCORES.copy()
    same[:2] = same[:2][::-1]
    return kept(SCORES) == [1, 2] and kept(same) == [0, 2]


def way_around() -> None:
    """Compare before the suppression, and what is kept by place instead of by index."""
    assert kept(SCORES) == nms(torch.tensor(BOXES), torch.tensor(SCORES), 0.5).tolist()
    overlap = np.abs(BOXES[0] - BOXES[1]).max()
    assert overlap <= 1 and len(kept(SCORES)) == len(kept(SCORES[[1, 0, 2]]))
