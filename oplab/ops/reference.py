"""The course's operators in plain NumPy, for ONNX's reference evaluator: what each computes, and nothing else.

``onnx.reference.ReferenceEvaluator(model, new_ops=OPERATORS)`` runs a model of the domain ``oplab`` without a compiled
kernel. The code is written to be read and to share nothing with the kernels in ``csrc``: it is what they are compared
with. Each class has the name of its operator; ``_run`` takes the node's inputs, then its attributes by name, and returns a
tuple of outputs. An optional input that the model leaves out is None.
"""

from __future__ import annotations

import math

import numpy as np
from onnx.reference.op_run import OpRun


class MyAdd(OpRun):
    """``y = alpha*a + beta*b``; shapes are equal, dtypes float32, float64, float16 or bfloat16."""

    op_domain = "oplab"

    def _run(self, a, b, alpha=3.0, beta=2.0):
        _same_shape("MyAdd", a=a, b=b)
        wide_a, wide_b = _widened(a), _widened(b)
        return ((wide_a.dtype.type(alpha) * wide_a + wide_b.dtype.type(beta) * wide_b).astype(a.dtype),)


class Foo(OpRun):
    """``y = attr1*input1 + input2**attr2``; the power is computed in double. Both attributes are required."""

    op_domain = "oplab"

    def _run(self, input1, input2, attr1=None, attr2=None):
        if attr1 is None or attr2 is None:
            raise ValueError("Foo: the attributes attr1 and attr2 are required.")
        _same_shape("Foo", input1=input1, input2=input2)
        with np.errstate(all="ignore"):
            power = np.power(input2.astype(np.float64), float(attr2)).astype(input2.dtype)
        return (input1.dtype.type(attr1) * input1 + power,)


class VarSum(OpRun):
    """``y = x0 + x1 + …`` for one tensor or more of one shape, from left to right."""

    op_domain = "oplab"

    def _run(self, *xs):
        _same_shape("VarSum", **{f"x{number}": x for number, x in enumerate(xs)})
        y = xs[0].copy()
        for x in xs[1:]:
            y += x
        return (y,)


class Grid(OpRun):
    """The number of the voxel that each point is in, int64 (n,), as ``torch_cluster::grid`` counts.

    Shapes: pos (n, d), or with more dimensions, which are flattened; size, start and end (d,).
    """

    op_domain = "oplab"

    def _run(self, pos, size, start=None, end=None):
        points = pos.reshape(len(pos), math.prod(pos.shape[1:]))
        if not len(points):
            return (np.empty(0, np.int64),)
        start = points.min(axis=0) if start is None else start
        end = points.max(axis=0) if end is None else end
        cells = np.trunc((points - start) / size).astype(np.int64)
        counts = np.trunc((end - start) / size).astype(np.int64) + 1
        strides = np.concatenate([[1], np.cumprod(counts[:-1])]).astype(np.int64)
        return ((cells * strides).sum(axis=1),)


class KNNQuery(OpRun):
    """The ``nsample`` nearest points of each query in its batch: idx int32 (m, nsample) and dist (m, nsample).

    Shapes: xyz (n, 3), offset int64 (b,), the number of points in batches 0…i; new_xyz (m, 3) and new_offset (b,), which are
    xyz and offset where they are left out. A missing neighbour has the index -1 and the distance 0; of two points at
    one distance the one with the lower index is nearer. Distances between points of float16 or bfloat16 are compared in float32.
    """

    op_domain = "oplab"

    def _run(self, xyz, offset, new_xyz=None, new_offset=None, nsample=None):
        dtype, xyz = xyz.dtype, _widened(xyz)
        queries = xyz if new_xyz is None else _widened(new_xyz)
        query_offset = offset if new_offset is None else new_offset
        idx = np.full((len(queries), nsample), -1, np.int32)
        dist = np.zeros((len(queries), nsample), xyz.dtype)
        begin = query_begin = 0
        for end, query_end in zip(offset, query_offset, strict=True):
            points = xyz[begin:end]
            for row in range(query_begin, query_end):
                gap = points - queries[row]
                square = gap[:, 0] * gap[:, 0] + gap[:, 1] * gap[:, 1] + gap[:, 2] * gap[:, 2]
                nearest = np.argsort(square, kind="stable")[:nsample]
                idx[row, : len(nearest)] = begin + nearest
                dist[row, : len(nearest)] = np.sqrt(square[nearest])
            begin, query_begin = end, query_end
        return idx, dist.astype(dtype)


class DynamicResize(OpRun):
    """A bicubic resize of x (N, C, H, W) by ``scales``, four floats of which the first two are 1.

    As ONNX's Resize with ``mode="cubic"``, ``coordinate_transformation_mode="half_pixel"`` and
    ``cubic_coeff_a=-0.75``. The new height and width are ``floor(size * scale)``. uint8 and int8 are rounded to the nearest.
    """

    op_domain = "oplab"

    def _run(self, x, scales):
        y = _widened(x)
        for axis in (2, 3):
            y = self._along(y, axis, np.float32(scales[axis]))
        if np.issubdtype(x.dtype, np.integer):
            y = np.clip(np.rint(y), np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        return (y.astype(x.dtype),)

    @classmethod
    def _along(cls, x, axis: int, scale: np.float32):
        size = x.shape[axis]
        new_size = int(np.floor(np.float32(size) * scale))
        if new_size == size and scale == 1:
            return x
        at = (np.arange(new_size, dtype=np.float32) + np.float32(0.5)) / scale - np.float32(0.5)
        below = np.floor(at)
        weights = cls._cubic((at - below).astype(x.dtype))
        y = 0
        for tap in range(4):  # the two neighbours below and the two above; the border's pixel goes on outside
            pixels = np.clip(below.astype(np.int64) - 1 + tap, 0, size - 1)
            shape = [1] * x.ndim
            shape[axis] = new_size
            y = y + np.take(x, pixels, axis=axis) * weights[tap].reshape(shape)
        return y

    @staticmethod
    def _cubic(t, a: float = -0.75):
        """The weights of the pixels at -1, 0, 1 and 2 (R. G. Keys, IEEE TASSP 29(6), 1981), for t in [0, 1)."""

        def near(d):
            return ((a + 2) * d - (a + 3)) * d * d + 1

        def far(d):
            return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

        return far(t + 1), near(t), near(1 - t), far(2 - t)


class DeformConv2d(OpRun):
    """A 2-D convolution that samples its input at shifted places: ONNX's DeformConv, version 19.

    Shapes: X (N, C, H, W); W (O, C/group, kH, kW); offset (N, offset_group*kH*kW*2, oH, oW), the shift down and the shift
    right of each place; B (O,); mask (N, offset_group*kH*kW, oH, oW), a factor for each sample. Outside the image is 0.
    """

    op_domain = "oplab"

    def _run(
        self, X, W, offset, B=None, mask=None, dilations=None, group=1, kernel_shape=None, offset_group=1, pads=None,
        strides=None,
    ):  # fmt: skip
        (n, c, height, width), (o, c_group, kh, kw) = X.shape, W.shape
        if kernel_shape is not None and list(kernel_shape) != [kh, kw]:
            raise ValueError(f"DeformConv2d: kernel_shape is {list(kernel_shape)}, but W has {[kh, kw]}.")
        (down, right), (top, left) = strides or (1, 1), (pads or (0, 0, 0, 0))[:2]
        dil_y, dil_x = dilations or (1, 1)
        oh, ow = offset.shape[2:]
        offset = offset.reshape(n, offset_group, kh, kw, 2, oh, ow)
        mask = np.ones((n, offset_group, kh, kw, oh, ow), X.dtype) if mask is None else mask
        mask = mask.reshape(n, offset_group, kh, kw, oh, ow)
        images = X.reshape(n, offset_group, c // offset_group, height, width)
        weights = W.reshape(group, o // group, c_group, kh, kw)
        y = np.zeros((n, group, o // group, oh, ow), X.dtype)
        for i in range(kh):
            for j in range(kw):
                at_y = np.arange(oh)[:, None] * down - top + i * dil_y + offset[:, :, i, j, 0]
                at_x = np.arange(ow) * right - left + j * dil_x + offset[:, :, i, j, 1]
                samples = self._bilinear(images, at_y, at_x) * mask[:, :, None, i, j]
                y += np.einsum("ngchw,goc->ngohw", samples.reshape(n, group, c_group, oh, ow), weights[..., i, j])
        y = y.reshape(n, o, oh, ow)
        return ((y if B is None else y + B[:, None, None]).astype(X.dtype),)

    @staticmethod
    def _bilinear(images, at_y, at_x):
        """images (n, g, c, H, W) at the places (n, g, oh, ow) -> (n, g, c, oh, ow)."""
        n, g, _, height, width = images.shape
        y0, x0 = np.floor(at_y), np.floor(at_x)
        batch, part = np.arange(n)[:, None, None, None], np.arange(g)[:, None, None]
        sample = 0
        for y, x in ((y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1)):
            share = (1 - np.abs(at_y - y)) * (1 - np.abs(at_x - x))
            inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
            row = np.where(inside, y, 0).astype(np.int64)
            column = np.where(inside, x, 0).astype(np.int64)
            pixels = images[batch, part, :, row, column]  # (n, g, oh, ow, c): NumPy puts the slice last
            sample = sample + np.moveaxis(pixels, -1, 2) * (share * inside)[:, :, None].astype(images.dtype)
        return sample


class RMSNorm(OpRun):
    """``y = x / sqrt(mean(x**2) + epsilon) * weight`` along the last axis: x (…, d), weight (d,).

    float16 and bfloat16 are computed in float32, and each result is rounded once.
    """

    op_domain = "oplab"

    def _run(self, x, weight, epsilon=1e-5):
        wide, factors = _widened(x), _widened(weight)
        square = np.mean(wide * wide, axis=-1, keepdims=True)
        return ((wide / np.sqrt(square + wide.dtype.type(epsilon)) * factors).astype(x.dtype),)


OPERATORS: tuple[type[OpRun], ...] = (MyAdd, Foo, VarSum, Grid, KNNQuery, DynamicResize, DeformConv2d, RMSNorm)
"""For ``ReferenceEvaluator(model, new_ops=list(OPERATORS))``."""


def _widened(x: np.ndarray) -> np.ndarray:
    """What the kernels compute with: float16, bfloat16 and 8-bit integers as float32, anything else as it is."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def _same_shape(operator: str, **inputs: np.ndarray) -> None:
    """NumPy would broadcast; the operators do not."""
    (first, one), *others = inputs.items()
    for name, other in others:
        if other.shape != one.shape:
            raise ValueError(f"{operator}: {first} is {list(one.shape)} and {name} is {list(other.shape)}.")
