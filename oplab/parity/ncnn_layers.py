"""The course's operators as layers of ncnn: MyAdd is one that ncnn has, the other two are Python.

They share no code with :mod:`oplab.ops.reference`: where the two agree, that says something. An element of a blob of ncnn has four
bytes, so an int64 input is passed as int32.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ncnn
import numpy as np

INTEGERS = {"KNNQuery": (1, 3)}  # which inputs are integers: a Mat does not know
OUTPUTS = {"KNNQuery": ("i", "f")}  # of each output; otherwise one of floats


def line_of(op: str, inputs: int, attributes: dict[str, Any]) -> str:
    """A net of one layer in ncnn's text format; its blobs are in0, in1, … and out0, out1, …"""
    outputs = len(OUTPUTS.get(op, "f"))
    kind, parameters = op, ""
    if op == "MyAdd":  # Eltwise adds (0=1) with a coefficient for each input: -23301 is parameter 1, an array
        weights = [float(np.float32(attributes.get(name, default))) for name, default in (("alpha", 3), ("beta", 2))]
        kind, parameters = "Eltwise", f" 0=1 -23301=2,{weights[0]:.9e},{weights[1]:.9e}"
    ends = " ".join([*(f"in{i}" for i in range(inputs)), *(f"out{i}" for i in range(outputs))])
    lines = [f"Input in{i} 0 1 in{i}" for i in range(inputs)]
    lines.append(f"{kind} layer {inputs} {outputs} {ends}{parameters}")
    return "\n".join(["7767517", f"{len(lines)} {inputs + outputs}", *lines, ""])


def mat(array: np.ndarray, batch_index: int = 233) -> ncnn.Mat:
    """A copy: a Mat does not keep alive the array that it is made from. 233 is ncnn's word for "no dimension is the batch"."""
    return ncnn.Mat(np.ascontiguousarray(array), batch_index=batch_index).clone()


class _Layer(ncnn.Layer):
    """ncnn passes on what forward raises."""

    def __init__(self, op: str, attributes: dict[str, Any]):
        super().__init__()
        self.one_blob_only = self.support_inplace = False
        self.op, self.attributes = op, attributes

    def forward(self, bottoms: list[ncnn.Mat], tops: list[ncnn.Mat], opt: ncnn.Option) -> int:
        del opt
        kinds = ["i" if number in INTEGERS.get(self.op, ()) else "f" for number in range(len(bottoms))]
        arrays = [np.array(bottom.numpy(kind)) for bottom, kind in zip(bottoms, kinds, strict=True)]
        for top, array in zip(tops, LAYERS[self.op](*arrays, **self.attributes), strict=True):
            top.clone_from(mat(array))
        return 0


def register(net: ncnn.Net, op: str, attributes: dict[str, Any], kept: list[ncnn.Layer]) -> None:
    """Gives a net the layer of an operator. ``kept`` keeps the layer alive, which ncnn holds by its address."""

    def create() -> ncnn.Layer:
        kept.append(_Layer(op, attributes))
        return kept[-1]

    if op in LAYERS:
        net.register_custom_layer(op, create, lambda layer: None)


# --- The operators


def _refuse(wrong: bool, sentence: str) -> None:
    if wrong:
        raise RuntimeError(sentence)


def check(op: str, arrays: list[np.ndarray]) -> None:
    """What the operator says of shapes that do not fit; a layer does not see all of them, because ncnn has no empty blobs."""
    if op == "MyAdd":
        a, b = (str(list(array.shape)).replace(" ", "") for array in arrays)
        _refuse(a != b, f"MyAdd: a and b must have the same shape, but a is {a} and b is {b}.")


def _resize(x: np.ndarray, scales: np.ndarray) -> list[np.ndarray]:
    """Two products with matrices whose rows hold the four weights of one new pixel."""
    _refuse(x.ndim != 4, f"DynamicResize: x must have the shape [N, C, H, W], but its shape is {list(x.shape)}.")
    _refuse(
        scales.shape != (4,), f"DynamicResize: scales must have the shape [4], but its shape is {list(scales.shape)}."
    )
    for number, scale in enumerate(scales):
        at = f"but scales[{number}] is {scale:g}."
        _refuse(not np.isfinite(scale), f"DynamicResize: scales must be finite, {at}")
        _refuse(scale <= 0, f"DynamicResize: scales must be positive, {at}")
        _refuse(number < 2 and scale != 1, f"DynamicResize: scales must leave N and C as they are, {at}")
    rows, columns = (_weights(x.shape[axis], scales[axis]) for axis in (2, 3))
    return [np.matmul(np.matmul(rows, x), columns.T).astype(np.float32)]


def _weights(size: int, scale: np.float32) -> np.ndarray:
    new = math.floor(np.float32(size) * scale)
    _refuse(new < 1, f"DynamicResize: ncnn has no empty blobs, and {size} * {scale:g} is less than 1.")
    at = (np.arange(new, dtype=np.float32) + np.float32(0.5)) / scale - np.float32(0.5)
    first = np.floor(at)
    distance = np.abs((at - first)[:, None] - np.arange(-1, 3, dtype=np.float32))
    a = np.float32(-0.75)
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * (distance**3 - 5 * distance**2 + 8 * distance - 4)
    taps = np.clip(first.astype(np.int64)[:, None] + np.arange(-1, 3), 0, size - 1)
    matrix = np.zeros((new, size), np.float32)
    np.add.at(matrix, (np.arange(new)[:, None], taps), np.where(distance <= 1, near, far))
    return matrix


def _knn(xyz, offset, new_xyz=None, new_offset=None, *, nsample=None) -> list[np.ndarray]:
    _refuse(nsample is None, "KNNQuery: nsample is missing.")
    _refuse(nsample < 1, f"KNNQuery: nsample must be at least 1, but it is {nsample}.")
    given = [("xyz", xyz, "offset", offset)] + (
        [] if new_xyz is None else [("new_xyz", new_xyz, "new_offset", new_offset)]
    )
    for points, array, name, ends in given:
        _refuse(
            array.ndim != 2 or array.shape[1] != 3,
            f"KNNQuery: {points} must have the shape [n, 3], but its shape is {list(array.shape)}.",
        )
        for i, end in enumerate(ends):
            here = f"but {name}[{i}] is {end}."
            _refuse(end < 0, f"KNNQuery: {name} must not be negative, {here}")
            _refuse(i > 0 and end < ends[i - 1], f"KNNQuery: {name} must not decrease, {here}")
            _refuse(end > len(array), f"KNNQuery: {name} must not exceed the {len(array)} points of {points}, {here}")
        _refuse(ends[-1] != len(array), f"KNNQuery: {name} must end at the {len(array)} points of {points}, {here}")
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            row, column = bad[0]
            value = f"{array[row, column]:g}"
            _refuse(True, f"KNNQuery: {points} must be finite, but coordinate {column} of point {row} is {value}.")
    queries, query_offset = (xyz, offset) if new_xyz is None else (new_xyz, new_offset)
    _refuse(len(query_offset) != len(offset), "KNNQuery: new_offset must have one value for each of offset's batches.")
    largest = max(np.diff(offset, prepend=0))
    _refuse(
        nsample > largest, f"KNNQuery: nsample must not be larger than the largest batch, which has {largest} points."
    )
    idx = np.full((len(queries), nsample), -1, np.int32)
    dist = np.zeros((len(queries), nsample), np.float32)
    batches = zip(itertools.pairwise([0, *offset]), itertools.pairwise([0, *query_offset]), strict=True)
    for (begin, end), (first, last) in batches:
        square = ((queries[first:last, None, :] - xyz[None, begin:end, :]) ** 2).sum(axis=2)
        for row, distances in enumerate(square, first):
            # By distance; of two points at one distance the one with the lower index.
            order = np.lexsort((np.arange(len(distances)), distances))[:nsample]
            idx[row, : len(order)] = begin + order
            dist[row, : len(order)] = np.sqrt(distances[order])
    return [idx, dist]


LAYERS: dict[str, Callable[..., list[np.ndarray]]] = {"DynamicResize": _resize, "KNNQuery": _knn}
