"""``oplab::DynamicResize``: models of one node, images, and a reference as products of matrices."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.support.models import model_of

SIZES = {  # height, width, and the factors for them
    "enlarged": (10, 7, 2, 3),
    "by no whole factor": (10, 7, 2.3, 1.7),
    "one pixel": (1, 1, 5, 4),
    "reduced": (13, 9, 0.5, 0.34),
    "to one row": (5, 8, 0.2, 0.9),
    "to one pixel": (5, 8, 0.2, 0.125),
    "far reduced": (40, 33, 0.1, 0.3),
    "as it was": (6, 5, 1, 1),
    "one way each": (4, 30, 3.7, 0.3),
    "two lots of columns": (2, 1500, 1.5, 3.125),
}


def cubic(distance: np.ndarray) -> np.ndarray:
    """Keys' kernel with a = -0.75, as a function of the distance between an output pixel and an input pixel."""
    a, d = -0.75, np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def matrix(length: int, scale: float) -> np.ndarray:
    """What one dimension is multiplied by. The rounding of the new length is ONNX Runtime's, in float32."""
    scale = np.float32(scale)
    new_length = int(np.floor(np.float32(length) * scale))
    weights = np.zeros((new_length, length))
    pixels = np.arange(new_length)
    at = (pixels + 0.5) / float(scale) - 0.5
    for step in range(-1, 3):
        neighbour = np.floor(at) + step
        np.add.at(weights, (pixels, np.clip(neighbour, 0, length - 1).astype(int)), cubic(at - neighbour))
    return weights


def reference(x: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Two matrices, in double."""
    return (matrix(x.shape[2], scales[2]) @ x.astype(np.float64) @ matrix(x.shape[3], scales[3]).T).astype(x.dtype)


def make_model(dtype=np.float32, shape: list | None = None, node=None):
    node = node or helper.make_node("DynamicResize", ["x", "scales"], ["y"], domain="oplab")
    return model_of([node], {"x": dtype, "scales": np.float32}, {"y": dtype}, {"x": shape})


def images(height: int, width: int, scale_y: float, scale_x: float, dtype=np.float32) -> dict[str, np.ndarray]:
    random = np.random.default_rng([height, width])
    return {
        "x": random.normal(size=(2, 3, height, width)).astype(dtype),
        "scales": np.array([1, 1, scale_y, scale_x], np.float32),
    }
