"""``oplab::grid`` and ``oplab::Grid``: models of one node, clouds of points, a reference in Python, and both runtimes."""

from __future__ import annotations

import math

import numpy as np
import torch
from onnx import helper

from oplab import ops
from tests.support.models import model_of

CORNERS = ("neither", "start", "end", "both")


def reference(pos: np.ndarray, size: np.ndarray, start=None, end=None) -> np.ndarray:
    """Point by point, in Python's integers, which cannot overflow. Only the quotients are rounded, as the dtype does."""
    points = pos.reshape(pos.shape[0], math.prod(pos.shape[1:]))
    if not len(points):
        return np.empty(0, np.int64)
    start = points.min(axis=0) if start is None else start
    end = points.max(axis=0) if end is None else end
    counts = [int(cells) + 1 for cells in (end - start) / size]
    numbers = []
    for cells in (points - start) / size:
        number, stride = 0, 1
        for cell, count in zip(cells, counts, strict=True):
            number, stride = number + int(cell) * stride, stride * count
        numbers.append(number)
    return np.array(numbers, np.int64)


def make_model(inputs=("pos", "size"), dtype=np.float32, shapes: dict | None = None, version: int | None = 1):
    """A model of one Grid node. An input with the name "" is left out."""
    node = helper.make_node("Grid", list(inputs), ["cluster"], domain="oplab")
    types = dict.fromkeys(filter(None, inputs), dtype)
    return model_of([node], types, {"cluster": np.int64}, shapes, domains=[("oplab", version)] if version else [])


def inputs_for(corner: str) -> tuple[str, ...]:
    return {
        "neither": ("pos", "size"),
        "start": ("pos", "size", "start"),
        "end": ("pos", "size", "", "end"),
        "both": ("pos", "size", "start", "end"),
    }[corner]


def cloud(*shape: int, dtype=np.float32, corner: str = "neither") -> dict[str, np.ndarray]:
    random = np.random.default_rng([*shape, CORNERS.index(corner)])
    d = math.prod(shape[1:])
    feed = {"pos": random.normal(0, 2, shape), "size": random.uniform(0.1, 1.5, d)}
    if corner in ("start", "both"):
        feed["start"] = random.uniform(-9, -1, d)  # points lie below it too
    if corner in ("end", "both"):
        feed["end"] = random.uniform(1, 9, d)
    return {name: value.astype(dtype) for name, value in feed.items()}


def in_torch(feed: dict[str, np.ndarray], device: str = "cpu") -> np.ndarray:
    return torch.ops.oplab.grid(**{name: torch.from_numpy(value).to(device) for name, value in feed.items()}).numpy()


def in_ort(feed: dict[str, np.ndarray], threads: int | None = None) -> np.ndarray:
    corner = {(False, False): "neither", (True, False): "start", (False, True): "end", (True, True): "both"}
    inputs = inputs_for(corner["start" in feed, "end" in feed])
    session = ops.session(make_model(inputs, feed["pos"].dtype.type), threads=threads)
    (cluster,) = session.run(None, feed)
    return cluster


def refused_argument(pos, size, start=None, end=None) -> str | None:
    """The argument that grid has to name, or None where it has to answer."""
    if pos.ndim == 0 or 0 in pos.shape[1:]:
        return "pos"
    d = math.prod(pos.shape[1:])
    given = {name: value for name, value in (("size", size), ("start", start), ("end", end)) if value is not None}
    for name, value in given.items():
        if value.shape != (d,):
            return name
    for name, value in given.items():
        if not np.isfinite(value).all():
            return name
    if (size <= 0).any():
        return "size"
    points = pos.reshape(-1, d)
    if not np.isfinite(points).all():
        return "pos"
    if not len(points):
        return None
    start = points.min(axis=0) if start is None else start
    end = points.max(axis=0) if end is None else end
    strides = [1]
    for k, last in enumerate((end - start) / size):
        if last <= -1:
            return "end"
        if k + 1 < d:
            cells = int(last) + 1 if np.isfinite(last) else 2**63
            strides.append(strides[-1] * cells)
            if strides[-1] >= 2**63 or cells >= 2**63:
                return "size"
    for quotients in (points - start) / size:
        number = 0
        for quotient, stride in zip(quotients, strides, strict=True):
            if not -(2.0**63) < quotient < 2.0**63:
                return "pos"
            term = int(quotient) * stride
            number += term
            if not (-(2**63) <= term < 2**63 and -(2**63) <= number < 2**63):
                return "pos"
    return None
