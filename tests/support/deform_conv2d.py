"""``oplab::DeformConv2d``: models of one node, inputs of every kind, a reference in Python, and ONNX Runtime's own DeformConv."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
from onnx import helper

from oplab import ops
from tests.support.models import model_of

INPUTS = ("X", "W", "offset", "B", "mask")


def make_model(inputs=INPUTS, dtype=np.float32, shapes: dict | None = None, standard: bool = False, **attributes):
    """One node; ``standard`` makes it ONNX's own DeformConv."""
    name, domain = ("DeformConv", "") if standard else ("DeformConv2d", "oplab")
    node = helper.make_node(name, list(inputs), ["Y"], domain=domain, **attributes)
    types = dict.fromkeys(filter(None, inputs), dtype)
    return model_of([node], types, {"Y": dtype}, shapes, opset=19, ir_version=9)


def make_feed(
    n=2,
    channels=4,
    size=(7, 6),
    out_channels=5,
    kernel=(3, 3),
    strides=(1, 1),
    pads=(1, 1, 1, 1),
    dilations=(1, 1),
    group=1,
    offset_group=1,
    dtype=np.float32,
    reach=1.5,
    seed=0,
) -> tuple[dict[str, np.ndarray], dict]:
    """The five inputs, and the node's attributes. Offsets have the standard deviation ``reach``, in pixels."""
    random = np.random.default_rng([seed, n, channels, *size, out_channels, *kernel, group, offset_group])
    out = [(size[k] + pads[k] + pads[k + 2] - dilations[k] * (kernel[k] - 1) - 1) // strides[k] + 1 for k in range(2)]
    taps = kernel[0] * kernel[1]
    feed = {
        "X": random.standard_normal((n, channels, *size)),
        "W": random.standard_normal((out_channels, channels // group, *kernel)),
        "offset": random.normal(0, reach, (n, offset_group * taps * 2, *out)),
        "B": random.standard_normal(out_channels),
        "mask": random.uniform(0, 1, (n, offset_group * taps, *out)),
    }
    attributes = {
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "group": group,
        "offset_group": offset_group,
    }
    return {name: value.astype(dtype) for name, value in feed.items()}, attributes


def reference(
    X, W, offset, B=None, mask=None, *, strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), group=1, offset_group=1
):
    """The formula of ONNX's DeformConv-19, in double, one output value after the other."""
    (n, channels, height, width), (out_channels, depth, kernel_h, kernel_w) = X.shape, W.shape
    out_h, out_w = offset.shape[2:]
    taps = kernel_h * kernel_w
    shift = offset.astype(np.float64).reshape(n, offset_group, taps, 2, out_h, out_w)
    scale = (
        np.ones((n, offset_group, taps, out_h, out_w))
        if mask is None
        else mask.reshape(n, offset_group, taps, out_h, out_w)
    )
    padded = np.zeros((n, channels, height + 2, width + 2))  # one ring of zeros: what a sample on the border mixes in
    padded[:, :, 1:-1, 1:-1] = X
    y = np.zeros((n, out_channels, out_h, out_w))
    for i, tap, row, column in itertools.product(range(n), range(taps), range(out_h), range(out_w)):
        sampled = np.zeros(channels)
        for c in range(channels):
            g = c // (channels // offset_group)
            at_y = row * strides[0] - pads[0] + tap // kernel_w * dilations[0] + shift[i, g, tap, 0, row, column]
            at_x = column * strides[1] - pads[1] + tap % kernel_w * dilations[1] + shift[i, g, tap, 1, row, column]
            if -1 < at_y < height and -1 < at_x < width:
                top, left = int(np.floor(at_y)), int(np.floor(at_x))
                down, right = at_y - top, at_x - left
                corners = padded[i, c, top + 1 : top + 3, left + 1 : left + 3]
                sampled[c] = np.array([1 - down, down]) @ corners @ np.array([1 - right, right])
            sampled[c] *= scale[i, g, tap, row, column]
        kernel = W[:, :, tap // kernel_w, tap % kernel_w]
        for k in range(out_channels):
            g = k // (out_channels // group)
            y[i, k, row, column] += kernel[k] @ sampled[g * depth : (g + 1) * depth]
    return y if B is None else y + B.reshape(1, -1, 1, 1)


def ours(feed, threads: int | None = None, inputs=None, **attributes) -> np.ndarray:
    model = make_model(inputs or tuple(feed), feed["X"].dtype.type, **attributes)
    (y,) = ops.session(model, threads=threads).run(None, feed)
    return y


def standard(feed, **attributes) -> np.ndarray:
    model = make_model(
        tuple(name if name in feed else "" for name in INPUTS), feed["X"].dtype.type, standard=True, **attributes
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)[0]


def close(y: np.ndarray, expected: np.ndarray, dtype=None) -> None:
    """Within the rounding of as many products as one output value sums."""
    assert y.shape == expected.shape
    tolerance = 3e-5 if (dtype or y.dtype) == np.float32 else 1e-12
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max(initial=0)))


CASES = {
    "plain": {},
    "one pixel": {"size": (1, 1), "kernel": (1, 1), "pads": (0, 0, 0, 0), "n": 1},
    "one channel": {"channels": 1, "out_channels": 1},
    "strides": {"strides": (2, 3), "size": (11, 13)},
    "dilations": {"dilations": (2, 3), "size": (11, 13)},
    "pads differ": {"pads": (0, 1, 2, 3)},
    "no pads": {"pads": (0, 0, 0, 0)},
    "flat kernel": {"kernel": (1, 4), "pads": (0, 1, 0, 2)},
    "even kernel": {"kernel": (2, 4)},
    "groups": {"group": 2, "channels": 6, "out_channels": 4},
    "depthwise": {"group": 6, "channels": 6, "out_channels": 12},
    "offset groups": {"offset_group": 3, "channels": 6},
    "groups of both kinds": {"group": 2, "offset_group": 3, "channels": 6, "out_channels": 4},
    "more channels than one run": {"channels": 150, "out_channels": 37, "size": (5, 4), "n": 1},
    "more pixels than one tile": {"size": (13, 11), "channels": 3, "out_channels": 2},
    "far away": {"reach": 30.0},
    "all differ": {
        "group": 2,
        "offset_group": 2,
        "channels": 4,
        "out_channels": 6,
        "kernel": (3, 2),
        "strides": (2, 1),
        "pads": (2, 0, 1, 1),
        "dilations": (1, 2),
        "size": (9, 8),
    },
}


# More than the cases: each remainder of the rows of a product, of its panels (16 output channels, two
# at once with AVX-512), of a run of terms and of a transposed block.
SIZES = {
    **CASES,
    **{f"{pixels} pixels": {"size": (1, pixels), "kernel": (1, 3), "pads": (0, 1, 0, 1)} for pixels in range(1, 16)},
    **{f"{count} outputs": {"out_channels": count, "size": (4, 5), "n": 1} for count in (15, 16, 17, 31, 32, 33, 49)},
    **{f"{count} channels": {"channels": count, "size": (4, 5), "n": 1} for count in (14, 15, 16, 17, 31, 33)},
    "a single tile, many outputs": {"channels": 3, "out_channels": 300, "size": (3, 3), "n": 1},
    "tiles of unequal length": {"channels": 2, "out_channels": 3, "size": (13, 17), "n": 1},
    "more than 32 tiles": {
        "channels": 1,
        "out_channels": 1,
        "size": (46, 47),
        "kernel": (1, 1),
        "pads": (0,) * 4,
        "n": 1,
    },
    "a long row": {"channels": 3, "out_channels": 2, "size": (1, 997), "kernel": (1, 5), "pads": (0, 2, 0, 2), "n": 1},
    "a long column": {
        "channels": 3,
        "out_channels": 2,
        "size": (997, 1),
        "kernel": (5, 1),
        "pads": (2, 0, 2, 0),
        "n": 1,
    },
}
