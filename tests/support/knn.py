"""``oplab::knn_query`` and ``oplab::KNNQuery``: models of one node, clouds of points, a reference in NumPy, and both runtimes."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from onnx import helper

from oplab import ops
from tests.support.models import model_of

NAMES = ("xyz", "offset", "new_xyz", "new_offset")


def reference(nsample: int, xyz, offset, new_xyz=None, new_offset=None) -> tuple[np.ndarray, np.ndarray]:
    """Every query beside every point of its batch; NumPy's stable sort breaks the ties."""
    if new_xyz is None:
        new_xyz, new_offset = xyz, offset
    idx = np.full((len(new_xyz), nsample), -1, np.int32)
    dist = np.zeros((len(new_xyz), nsample), xyz.dtype)
    starts = itertools.pairwise([0, *offset]), itertools.pairwise([0, *new_offset])
    for (begin, end), (first, last) in zip(*starts, strict=True):
        with np.errstate(over="ignore", under="ignore"):
            x, y, z = (np.subtract.outer(new_xyz[first:last, k], xyz[begin:end, k]) ** 2 for k in range(3))
            square = x + y + z
        nearest = np.argsort(square, axis=1, kind="stable")[:, :nsample]
        idx[first:last, : nearest.shape[1]] = nearest + begin
        dist[first:last, : nearest.shape[1]] = np.sqrt(np.take_along_axis(square, nearest, axis=1))
    return idx, dist


def make_model(
    nsample: int | None, inputs=NAMES[:2], dtype=np.float32, offset_dtype=np.int64, shapes: dict | None = None
):
    """A model of one KNNQuery node. An input with the name "" is left out."""
    attributes = {} if nsample is None else {"nsample": nsample}
    node = helper.make_node("KNNQuery", list(inputs), ["idx", "dist"], domain="oplab", **attributes)
    types = {name: offset_dtype if "offset" in name else dtype for name in inputs if name}
    return model_of([node], types, {"idx": np.int32, "dist": dtype}, shapes)


def in_torch(nsample: int, feed: dict[str, np.ndarray], device: str = "cpu") -> tuple[np.ndarray, np.ndarray]:
    tensors = {name: torch.from_numpy(value).to(device) for name, value in feed.items()}
    idx, dist = torch.ops.oplab.knn_query(nsample, **tensors)
    return idx.numpy(), dist.numpy()


def in_ort(nsample: int, feed: dict[str, np.ndarray], threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    inputs = tuple(name if name in feed else "" for name in NAMES)
    model = make_model(nsample, inputs, feed["xyz"].dtype.type, feed["offset"].dtype.type)
    return tuple(ops.session(model, threads=threads).run(None, feed))


# Clouds that a search finds hard, each in its way: nothing to divide by, ties, one far point, nothing but corners.
CLOUDS = {
    "even": lambda random, n: random.random((n, 3)),
    "normal": lambda random, n: random.normal(0, 3, (n, 3)),
    "in one place": lambda random, n: np.full((n, 3), 0.3),
    "on a line": lambda random, n: np.outer(random.random(n), [1, -2, 3]),
    "on an axis": lambda random, n: random.random((n, 3)) * [0, 5, 0],
    "on a plane": lambda random, n: random.random((n, 3)) * [4, 0, 1],
    "on a sphere": lambda random, n: (lambda p: p / np.linalg.norm(p, axis=1, keepdims=True))(
        random.normal(size=(n, 3))
    ),
    "on a lattice": lambda random, n: random.integers(0, 6, (n, 3)),
    "two heaps far apart": lambda random, n: random.normal(0, 1e-3, (n, 3)) + 1e3 * random.integers(0, 2, (n, 1)),
    "one far away": lambda random, n: random.random((n, 3)) + 1e7 * (np.arange(n) == n // 2)[:, None],
    "of every size": lambda random, n: random.normal(size=(n, 3)) * 10.0 ** random.integers(-15, 15, (n, 1)),
    "beyond what squares can hold": lambda random, n: random.choice([-3e38, 3e38, 1e20, 0], (n, 3)),
    "too near for squares": lambda random, n: random.choice([0, 1e-30, -1e-38], (n, 3)),
}


def cloud(kind: str, n: int, dtype=np.float32, batches: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([seed, n, batches])
    offset = np.sort(random.integers(0, n + 1, batches))
    offset[-1:] = n
    return np.ascontiguousarray(CLOUDS[kind](random, n), dtype), offset
