"""Every kernel of the domain ``oplab``: a right model of one node, as a draft that can be made wrong, its inputs and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.support import deform_conv2d
from tests.support import foo as foo_
from tests.support import grid as grid_

Feed = dict[str, np.ndarray]


@dataclass(frozen=True)
class Kernel:
    """A node that is right, inputs for it, and what it has to answer.

    Attributes:
        feed: makes inputs by name; all of one floating-point type but those that are integers.
        reference: computes the outputs from the inputs by place (None: left out) and the attributes. It may raise for what
            the kernel has to refuse.
    """

    feed: Callable[[np.random.Generator], Feed]
    reference: Callable[..., list[np.ndarray]]
    inputs: tuple[str, ...]
    outputs: dict[str, type | None] = field(default_factory=lambda: {"y": None})  # None: the type of the floats
    attributes: dict[str, Any] = field(default_factory=dict)


def alike(*names: str) -> Callable[[np.random.Generator], Feed]:
    def feed(random: np.random.Generator) -> Feed:
        shape = tuple(random.integers(0, 5, random.integers(0, 4)))
        return {name: random.uniform(0.5, 2, shape) for name in names}

    return feed


def same_shapes(*values: np.ndarray) -> None:
    assert len({value.shape for value in values}) == 1 and len({value.dtype for value in values}) == 1


def my_add(a, b, *, alpha=3.0, beta=2.0):
    same_shapes(a, b)
    return [a.dtype.type(alpha) * a + a.dtype.type(beta) * b]


def var_sum(*x):
    same_shapes(*x)
    return [sum(x[1:], x[0])]


def foo(input1, input2, *, attr1, attr2):
    same_shapes(input1, input2)
    return [foo_.reference(input1, input2, attr1, attr2)]


def grid_feed(random: np.random.Generator) -> Feed:
    n, d = random.integers(0, 9), random.integers(1, 4)
    pos = random.normal(0, 2, (n, d))
    return {"pos": pos, "size": random.uniform(0.2, 2, d), "start": np.full(d, -9.0), "end": np.full(d, 9.0)}


def grid(pos, size, start=None, end=None):
    assert grid_.refused_argument(pos, size, start, end) is None
    return [grid_.reference(pos, size, start, end)]


def knn_feed(random: np.random.Generator) -> Feed:
    first, second = sorted(random.integers(0, 4, 2) + 3)
    queries = sorted(random.integers(0, 5, 2))
    return {
        "xyz": random.normal(0, 1, (first + second, 3)),
        "offset": np.array([first, first + second]),
        "new_xyz": random.normal(0, 1, (queries[1], 3)),
        "new_offset": np.array(queries),
    }


def knn(xyz, offset, new_xyz=None, new_offset=None, *, nsample):
    assert (new_xyz is None) == (new_offset is None) and xyz.shape[1:] == (3,) and nsample >= 1
    if new_xyz is None:
        new_xyz, new_offset = xyz, offset
    idx = np.full((len(new_xyz), nsample), -1, np.int32)
    dist = np.zeros((len(new_xyz), nsample), xyz.dtype)
    assert offset[-1] == len(xyz) and new_offset[-1] == len(new_xyz)
    for batch in range(len(offset)):
        points = range(offset[batch - 1] if batch else 0, offset[batch])
        for query in range(new_offset[batch - 1] if batch else 0, new_offset[batch]):
            gap = xyz[list(points)].reshape(-1, 3) - new_xyz[query]
            far = np.sqrt(gap[:, 0] * gap[:, 0] + gap[:, 1] * gap[:, 1] + gap[:, 2] * gap[:, 2])
            order = np.argsort(far, kind="stable")[:nsample]
            idx[query, : len(order)], dist[query, : len(order)] = order + points.start, far[order]
    return [idx, dist]


def resize_feed(random: np.random.Generator) -> Feed:
    shape = (random.integers(0, 3), random.integers(0, 3), *random.integers(2, 7, 2))
    factors = random.choice([0.5, 1, 1.5, 2, 2.7], 2)
    return {"x": random.uniform(0, 1, shape), "scales": np.array([1, 1, *factors], np.float32)}


def dynamic_resize(x, scales):
    """Its own tests hold its values; here it is the shape, and that the values lie where a cubic can take them."""
    assert x.ndim == 4 and scales.shape == (4,) and scales.dtype == np.float32
    sides = [int(np.floor(np.float32(length) * scale)) for length, scale in zip(x.shape[2:], scales[2:], strict=True)]
    assert min(sides) >= 1
    return [np.full((*x.shape[:2], *sides), np.nan, x.dtype)]


def deform_feed(random: np.random.Generator) -> Feed:
    feed, _ = deform_conv2d.make_feed(
        n=random.integers(0, 2), channels=2, size=(3, 3), out_channels=2, kernel=(2, 1), pads=(0,) * 4, dtype=np.float64
    )
    return feed


def deform(x, w, offset, bias=None, mask=None, *, kernel_shape=None, **attributes):
    assert x.ndim == w.ndim == offset.ndim == 4 and (kernel_shape is None or tuple(kernel_shape) == w.shape[2:])
    return [deform_conv2d.reference(x, w, offset, bias, mask, **attributes).astype(x.dtype)]


def rms_feed(random: np.random.Generator) -> Feed:
    width = random.integers(1, 5)
    shape = (*random.integers(0, 4, random.integers(0, 3)), width)
    return {"x": random.uniform(0.5, 2, shape), "weight": random.uniform(0.5, 2, width)}


def rms_norm(x, weight, *, epsilon=1e-5):
    assert x.ndim >= 1 and weight.shape == x.shape[-1:] and weight.dtype == x.dtype and epsilon >= 0
    square = np.mean(x * x, axis=-1, keepdims=True)  # in x's type, whose largest numbers have no square
    return [x * (1 / np.sqrt(square + x.dtype.type(epsilon))) * weight]


KERNELS = {
    "MyAdd": Kernel(alike("a", "b"), my_add, ("a", "b"), attributes={"alpha": 0.5, "beta": -1.0}),
    "Foo": Kernel(alike("a", "b"), foo, ("a", "b"), attributes={"attr1": 2.0, "attr2": 3}),
    "VarSum": Kernel(alike("a", "b", "c"), var_sum, ("a", "b", "c")),
    "Grid": Kernel(grid_feed, grid, ("pos", "size", "start", "end"), {"cluster": np.int64}),
    "KNNQuery": Kernel(
        knn_feed, knn, ("xyz", "offset", "new_xyz", "new_offset"), {"idx": np.int32, "dist": None}, {"nsample": 3}
    ),
    "DynamicResize": Kernel(resize_feed, dynamic_resize, ("x", "scales")),
    "DeformConv2d": Kernel(
        deform_feed,
        deform,
        ("X", "W", "offset", "B", "mask"),
        attributes={"kernel_shape": [2, 1], "strides": [1, 1], "pads": [0, 0, 0, 0], "group": 1},
    ),
    "RMSNorm": Kernel(rms_feed, rms_norm, ("x", "weight"), attributes={"epsilon": 1e-3}),
}


INTEGERS, ALWAYS_FLOAT = ("offset", "new_offset"), ("scales",)


@dataclass(frozen=True)
class Draft:
    """A model of one node, to be made wrong."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: dict[str, type]  # of inputs and outputs, as declared
    shapes: dict[str, list | None]  # of inputs, as declared
    attributes: dict[str, Any]
    domain: str = "oplab"
    version: int | None = 2

    def model(self) -> onnx.ModelProto:
        def info(name: str):
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.types[name]))
            return helper.make_tensor_value_info(name, kind, self.shapes.get(name))

        node = helper.make_node(self.name, list(self.inputs), list(self.outputs), domain=self.domain, **self.attributes)
        inputs = [info(name) for name in dict.fromkeys(self.inputs) if name]
        graph = helper.make_graph([node], "g", inputs, [info(name) for name in self.outputs if name])
        imports = [helper.make_opsetid("", 20)]
        if self.version is not None:
            imports.append(helper.make_opsetid(self.domain, self.version))
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


def right(name: str, dtype: type) -> Draft:
    kernel = KERNELS[name]
    types = {each: np.int64 if name == "KNNQuery" and each in INTEGERS else dtype for each in kernel.inputs}
    types |= {each: np.float32 for each in kernel.inputs if each in ALWAYS_FLOAT}
    types |= {each: kind or dtype for each, kind in kernel.outputs.items()}
    return Draft(name, kernel.inputs, tuple(kernel.outputs), types, {}, dict(kernel.attributes))
