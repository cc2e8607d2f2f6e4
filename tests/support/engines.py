"""Models with the course's operators, and one network, for the engines that parity compares with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import torch

from oplab import ops
from tests.support.models import one_node
from tests.support.translations import dynamic_resize_translation, my_add_translation

F = np.float32
Case = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers, float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def only(name: str, feed: dict[str, np.ndarray], **attributes) -> Case:
    """One node, with its inputs."""
    return one_node(name, feed, **attributes), feed


def knn(nsample: int = 4, names: list[str] | None = None, **given: np.ndarray) -> Case:
    """KNNQuery on two batches of 20 and 30 points."""
    feed = {"xyz": numbers(50, 3), "offset": np.array([20, 50]), **given}
    return one_node("KNNQuery", feed, names=names, outputs=("idx", "dist"), nsample=nsample), feed


def resized(scales: list[float], *shape: int) -> Case:
    """DynamicResize of an image of this shape."""
    return only("DynamicResize", {"x": numbers(*shape), "scales": np.array(scales, F)})


# What each engine has to compute as ONNX Runtime does.
OPERATORS: dict[str, Case] = {
    "sum": only("MyAdd", {"a": numbers(2, 3), "b": numbers(2, 3, seed=1)}),
    "weights": only("MyAdd", {"a": numbers(2, 3), "b": numbers(2, 3)}, alpha=0.1, beta=-7.0),
    "scalars": only("MyAdd", {"a": np.array(1, F), "b": np.array(2, F)}),
    "nan": only("MyAdd", {"a": np.array([np.nan, np.inf], F), "b": np.array([1, -np.inf], F)}),
    "enlarged": resized([1, 1, 2, 1.5], 2, 3, 8, 5),
    "reduced": resized([1, 1, 0.5, 0.4], 1, 1, 9, 9),
    "neighbours": knn(),
    "int32": knn(offset=np.array([20, 50], np.int32)),
    "queries": knn(new_xyz=numbers(7, 3, seed=2), new_offset=np.array([3, 7])),
    "empty names": knn(names=["xyz", "offset", "", ""]),
}


class Mixed(torch.nn.Module):
    """A convolution between two operators of the course."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x, scales):
        y = torch.relu(self.conv(torch.ops.oplab.dynamic_resize(x, scales)))
        return torch.ops.oplab.my_add(y, y, 0.5, 0.25)


def exported() -> tuple[torch.nn.Module, torch.onnx.ONNXProgram, dict[str, torch.Tensor]]:
    """:class:`Mixed`, through today's exporter, and its inputs."""
    ops.load()
    net, feed = (
        Mixed().eval(),
        {"x": torch.from_numpy(numbers(1, 3, 6, 5)), "scales": torch.tensor([1.0, 1.0, 2.0, 3.0])},
    )
    table = {
        torch.ops.oplab.dynamic_resize.default: dynamic_resize_translation,
        torch.ops.oplab.my_add.default: my_add_translation,
    }
    program = torch.onnx.export(net, tuple(feed.values()), dynamo=True, verbose=False, custom_translation_table=table)
    return net, program, feed
