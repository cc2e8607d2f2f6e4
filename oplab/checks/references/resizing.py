"""The course's bicubic resize in matrices, and what learners compute in its place: shared by chapters 08, 16 and 18."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from oplab.parity.arrays import expect_close

Feeds = Mapping[str, np.ndarray]


def alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two results are so close that a message could not tell them apart."""
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-3, atol=1e-3))


def resized(
    feeds: Feeds,
    *,
    a: float = -0.75,
    place: str = "scale",
    side: str = "float",
    border: str = "clamp",
    weights: str = "cubic",
) -> np.ndarray:
    """A bicubic resize by matrices, in double; the keywords make known wrong answers.

    Args:
        feeds: x, and scales.
        a: the coefficient of Keys' cubic.
        place: where a new pixel is in x.
        side: how floor(length * scale) is computed.
        border: what counts beyond a border.
        weights: the interpolation.
    """
    y = feeds["x"].astype(np.float64)
    for axis in (2, 3):
        matrix = _matrix(y.shape[axis], feeds["scales"][axis], a, place, side, border, weights)
        y = np.moveaxis(np.tensordot(y, matrix, axes=([axis], [1])), -1, axis)
    return y.astype(np.float32)


def _matrix(length: int, scale: np.float32, a: float, place: str, side: str, border: str, weights: str) -> np.ndarray:
    """(new, length): the weight of each pixel of one side in each pixel of the new one."""
    exact = float(scale)
    product = np.float32(length) * scale
    sides = {"float": np.floor(product), "double": np.floor(length * exact), "half": np.floor(product + 0.5)}
    new = int(sides[side])
    i = np.arange(new)
    at = {
        "scale": (i + 0.5) / exact - 0.5,
        "quotient": (i + 0.5) * length / max(new, 1) - 0.5,
        "corners": i * (length - 1) / max(new - 1, 1),
        "no half": i / exact,
        "one at 0": (i + 0.5) / exact - 0.5 if new > 1 else np.zeros(new),
    }[place]
    matrix = np.zeros((new, length))
    whole = (np.trunc(at) if weights == "towards 0" else np.floor(at)).astype(int)
    for tap in range(-1, 3):
        pixel = whole + tap
        d = np.abs(at - pixel)
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weight = np.where(d <= 1, near, np.where(d < 2, far, 0))
        if weights == "linear":
            weight = np.maximum(1 - d, 0)
        outside = (pixel < 0) | (pixel >= length)
        if border == "left out":
            weight = np.where(outside, 0, weight)
        np.add.at(matrix, (i, np.clip(pixel, 0, length - 1)), weight)
    return matrix / matrix.sum(axis=1, keepdims=True) if border == "left out" else matrix


def expect_resized(got: np.ndarray, feeds: Feeds, kept: tuple[int, ...] = ()) -> None:
    """Demand the resized x; ``kept`` are height and width of the first run's y.

    The tolerance is for a kernel that computes places in float: they err by 1e-7 of their size, 30 here, and a weight by twice that.
    """
    expected, scales = resized(feeds), feeds["scales"]
    if got.dtype == expected.dtype and got.shape == expected.shape and np.allclose(got, expected, rtol=1e-3, atol=1e-4):
        return  # the rest is for the message
    mistakes: dict[str, dict[str, Any]] = {
        "These are the weights with a = -0.5; ONNX's Resize and this kernel have a = -0.75.": {"a": -0.5},
        "Pixel i is at (i + 0.5) / scale - 0.5; this is i / scale, without the halves.": {"place": "no half"},
        "This is aligned at the corners: pixel i is at (i + 0.5) / scale - 0.5.": {"place": "corners"},
        "The place of a pixel follows from the scale, not from the quotient of the two sizes.": {"place": "quotient"},
        "A side that becomes one pixel shows the place 0 here; it is at 0.5 / scale - 0.5, by the rule for all sides.": {
            "place": "one at 0"
        },
        "Pixels beyond a border are left out here, and the other weights are scaled up; the border's pixel counts in their place.": {
            "border": "left out"
        },
        "The factors are swapped: scales[2] is the height's, scales[3] the width's.": {"scales": scales[[0, 1, 3, 2]]},
        "Everything is enlarged 2 times, whatever scales is.": {"scales": np.array([1, 1, 2, 2], np.float32)},
        "A side is floor(size * scale), multiplied in float: 10 pixels times 2.3 are 23, not 22.": {"side": "double"},
        "A side is floor(size * scale); here it is rounded to the nearest number.": {"side": "half"},
        "These are two pixels in each direction, bilinear; it is the four of Keys' cubic.": {"weights": "linear"},
        "A place below 0 is rounded towards 0 here: std::floor it before you make it an integer.": {
            "weights": "towards 0"
        },
        "The width follows scales[2]; it has its own factor, scales[3].": {"scales": scales[[0, 1, 2, 2]]},
    }
    likely = {
        cause: resized({"x": feeds["x"], "scales": mistake.pop("scales", scales)}, **mistake)
        for cause, mistake in mistakes.items()
    }
    likely["Values are cut off at 0 and 1: bicubic overshoots, and nothing bounds the result."] = expected.clip(0, 1)
    if got.shape[2:] == kept != expected.shape[2:]:
        likely[
            "These are the height and width of the first run: something of it is kept, in a member or a static variable."
        ] = got
    expect_close(got, expected, name="y", rtol=1e-3, atol=1e-4, likely=likely)
