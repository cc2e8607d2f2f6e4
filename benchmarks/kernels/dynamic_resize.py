"""DynamicResize next to ONNX Runtime's own Resize and PyTorch's interpolate, at factors of all kinds."""

from __future__ import annotations

import functools

import numpy as np
import torch

from oplab import ops

from .harness import Case, Peer, Run, close
from .runners import bound, model, one_node

KERNEL = "DynamicResize"
CUBIC = {"mode": "cubic", "coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.75}


def case(shape: tuple[int, int, int, int], factor: float, threads: bool = False) -> Case:
    feed = functools.cache(
        lambda: {
            "x": np.random.default_rng(0).random(shape, np.float32),
            "scales": np.array([1, 1, factor, factor], np.float32),
        }
    )

    def ours(threads: int) -> Run:
        return bound(one_node("DynamicResize", feed(), {"y": np.float32}), feed(), threads)

    def own(threads: int) -> Run:
        from onnx import helper

        node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **CUBIC)
        return bound(model([node], feed(), {"y": np.float32}), feed(), threads)

    def interpolate(threads: int) -> Run:
        x = torch.from_numpy(feed()["x"])
        # The scale as the kernels get it, a float32, and as many pixels as they find.
        scale = float(feed()["scales"][2])
        size = [int(np.floor(np.float32(length) * np.float32(scale))) for length in shape[2:]]
        if size == [int(length * scale) for length in shape[2:]]:
            return lambda: torch.nn.functional.interpolate(x, scale_factor=scale, mode="bicubic")
        return lambda: torch.nn.functional.interpolate(x, size=size, mode="bicubic")

    def in_torch(threads: int) -> Run:
        ops.load()
        x, scales = (torch.from_numpy(value) for value in feed().values())
        return lambda: torch.ops.oplab.dynamic_resize(x, scales)

    # ONNX Runtime computes coordinates in float32: next to them a pixel differs by up to 2e-3 of the range.
    loose = close(0, 2e-3)
    return Case(
        KERNEL,
        "×".join(map(str, shape[1:])) + f" by {factor:g}",
        ours,
        (
            Peer("ORT Resize", own, 8.0, loose),
            Peer("torch interpolate", interpolate, None, loose),
            Peer("ours in PyTorch", in_torch, None, close(0, 0)),
        ),
        threads=threads,
    )


def cases(quick: bool) -> list[Case]:
    if quick:
        return [case((1, 2, 16, 12), 2.5, threads=True), case((1, 2, 16, 12), 0.5)]
    made = [case((1, 3, side, side), 3, threads=side == 256) for side in (64, 128, 256, 512)]
    made += [case((1, 3, 256, 256), factor) for factor in (1.3, 2.7, 4)]
    made += [case((1, 64, 64, 64), 2), case((1, 3, 1024, 1024), 0.5), case((1, 3, 1000, 37), 1.7)]
    return made
