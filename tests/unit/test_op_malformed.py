"""Malformed models and inputs through every kernel of the domain ``oplab``, with the sanitizers watching.

A model of one node that is right is made wrong in up to three ways: attributes dropped, retyped or invented, inputs left out,
swapped or without a name, another domain or version, other types, other declared shapes. What still loads gets inputs of the
right shapes and of wrong ones. Each time there has to come a Python exception with a sentence, or the right result; never a
crash, which would end this process.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import test_op_deform_conv2d
import test_op_foo
import test_op_fuzz
import test_op_grid
from onnx import helper

from oplab import ops
from oplab.onnxtools import domain
from oplab.toolchain import build
from oplab.toolchain.sanitizer import sanitizer_env

CALLS = 10_000  # of each kernel
CALLS_OF_A_MODEL = 190
ODD = (np.nan, np.inf, -np.inf, -1, 0, 1e30, -1e30)
TYPES = (np.float32, np.float64, np.float16, np.int64, np.int32, np.bool_, np.uint8)
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
    return [test_op_foo.reference(input1, input2, attr1, attr2)]


def grid_feed(random: np.random.Generator) -> Feed:
    n, d = random.integers(0, 9), random.integers(1, 4)
    pos = random.normal(0, 2, (n, d))
    return {"pos": pos, "size": random.uniform(0.2, 2, d), "start": np.full(d, -9.0), "end": np.full(d, 9.0)}


def grid(pos, size, start=None, end=None):
    assert test_op_fuzz.refused_argument(pos, size, start, end) is None
    return [test_op_grid.reference(pos, size, start, end)]


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
    feed, _ = test_op_deform_conv2d.make_feed(
        n=random.integers(0, 2), channels=2, size=(3, 3), out_channels=2, kernel=(2, 1), pads=(0,) * 4, dtype=np.float64
    )
    return feed


def deform(x, w, offset, bias=None, mask=None, *, kernel_shape=None, **attributes):
    assert x.ndim == w.ndim == offset.ndim == 4 and (kernel_shape is None or tuple(kernel_shape) == w.shape[2:])
    return [test_op_deform_conv2d.reference(x, w, offset, bias, mask, **attributes).astype(x.dtype)]


KERNELS = {
    "MyAdd": Kernel(alike("a", "b"), my_add, ("a", "b"), attributes={"alpha": 0.5, "beta": -1.0}),
    "Foo": Kernel(alike("a", "b"), foo, ("a", "b"), attributes={"attr1": 2.0, "attr2": 3}),
    "VarSum": Kernel(alike("a", "b", "c"), var_sum, ("a", "b", "c")),
    "Grid": Kernel(grid_feed, grid, ("pos", "size", "start", "end"), {"cluster": np.int64}),
    "KNNQuery": Kernel(
        knn_feed,
        knn,
        ("xyz", "offset", "new_xyz", "new_offset"),
        {"idx": np.int32, "dist": None},
        {"nsample": 3},
    ),
    "DynamicResize": Kernel(resize_feed, dynamic_resize, ("x", "scales")),
    "DeformConv2d": Kernel(
        deform_feed,
        deform,
        ("X", "W", "offset", "B", "mask"),
        attributes={"kernel_shape": [2, 1], "strides": [1, 1], "pads": [0, 0, 0, 0], "group": 1},
    ),
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


def mutate(draft: Draft, random: np.random.Generator) -> Draft:
    """One step away from a right model."""
    inputs = list(draft.inputs)
    place = int(random.integers(len(inputs))) if inputs else 0
    names = [*draft.attributes, *domain.ATTRIBUTES[draft.name], "invented"]
    attribute = str(random.choice(names))
    values = (1, 0, -1, 2**62, 2.5, float("nan"), "text", [1, 1], [0, -1], [2**62] * 4, [1.5], ["a"], np.ones(2))
    value = values[random.integers(len(values))]
    if isinstance(value, np.ndarray):
        value = onnx.numpy_helper.from_array(value)
    named = [name for name in (*inputs, *draft.outputs) if name]
    some = str(random.choice(named)) if named else ""
    shape = [None, [None], ["n", 3], [2, 3], [], [0], ["n", None, 1, 1], [2**40, 2**40]][random.integers(8)]
    match random.integers(12):
        case 0:
            return replace(draft, attributes={k: v for k, v in draft.attributes.items() if k != attribute})
        case 1 | 2:
            return replace(draft, attributes={**draft.attributes, attribute: value})
        case 3:
            return replace(draft, inputs=tuple(inputs[:-1]))
        case 4:
            return replace(draft, inputs=tuple("" if i == place else name for i, name in enumerate(inputs)))
        case 5:
            return replace(draft, inputs=tuple(str(name) for name in random.permutation(inputs)))
        case 6:
            return replace(draft, inputs=(*inputs, inputs[place] if inputs else ""))
        case 7:
            return replace(draft, types={**draft.types, some: TYPES[random.integers(len(TYPES))]})
        case 8:
            return replace(draft, shapes={**draft.shapes, some: shape})
        case 9:
            return replace(draft, domain=("oplab", "", "Oplab", "oplab.more", "com.microsoft")[random.integers(5)])
        case 10:
            return replace(draft, version=(0, 1, 3, -1, 2**40, None)[random.integers(6)])
        case _:
            outputs = (draft.outputs[:-1], ("",) * len(draft.outputs), (*draft.outputs, "more"), draft.outputs[::-1])
            return replace(draft, outputs=outputs[random.integers(4)], types={**draft.types, "more": np.float32})


def spoiled(value: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Another shape, or an odd value."""
    match random.integers(6):
        case 0:
            return value[None]
        case 1:
            return value[..., :-1] if value.ndim else value
        case 2:
            return value.reshape(-1)
        case 3:
            return np.zeros((0,) * value.ndim, value.dtype)
        case 4:
            return np.concatenate([value, value]) if value.ndim else value
        case _:
            value = value.copy()
            if value.size:
                odd = ODD[random.integers(len(ODD))] if value.dtype.kind == "f" else random.integers(-3, 99)
                value.flat[random.integers(value.size)] = odd
            return value


def sentence(error: Exception) -> str:
    """What the exception says. Refusals of ours begin with the operator's name behind ONNX Runtime's prefix."""
    said = str(error).strip()
    assert len(said.split()) >= 4, f"no sentence: {error!r}"
    return said


def fuzz(name: str, library: str, calls: int = CALLS) -> Counter:
    """How often one kernel came to which outcome."""
    kernel, outcomes, number = KERNELS[name], Counter(), -1
    while outcomes["answered"] + outcomes["refused when run"] < calls:
        number += 1
        random = np.random.default_rng([2026, list(KERNELS).index(name), number])
        dtype = (np.float32, np.float64)[number % 2]
        draft = right(name, dtype)
        for _ in range((0, 1, 1, 2, 3)[number % 5]):
            draft = mutate(draft, random)
        try:
            session = ops.session(draft.model(), libraries=[library], threads=1 + number % 2)
        except Exception as error:
            assert number % 5, f"model {number} of {name} is right, but: {error}"
            sentence(error)
            outcomes["refused when loaded"] += 1
            continue
        wanted = {end.name for end in session.get_inputs()}
        outcomes["loaded"] += 1
        feeds = [kernel.feed(random) for _ in range(20)]
        for call in range(CALLS_OF_A_MODEL):
            feed = {each: value for each, value in feeds[call % len(feeds)].items() if each in wanted}
            if call % 3 == 1 and feed:
                some = str(random.choice(list(feed)))
                feed[some] = spoiled(np.asarray(feed[some]), random)
            with np.errstate(all="ignore"):
                feed = {each: np.asarray(value).astype(draft.types[each]) for each, value in feed.items()}
            try:
                answers = session.run(None, feed)
            except Exception as error:
                assert number % 5 or call % 3 == 1, f"call {call} of model {number} of {name} is right, but: {error}"
                sentence(error)
                outcomes["refused when run"] += 1
                continue
            outcomes["answered"] += 1
            if call % 7 < 2:
                judge(kernel, draft, feed, answers, f"call {call} of model {number} of {name}")
    return outcomes


def judge(kernel: Kernel, draft: Draft, feed: Feed, answers: list[np.ndarray], case: str) -> None:
    values = [feed[each] if each else None for each in draft.inputs]
    known = {key: value for key, value in draft.attributes.items() if key in domain.ATTRIBUTES[draft.name]}
    with np.errstate(all="ignore"):
        expected = kernel.reference(*values, **known)
    kept = [want for want, each in zip(expected, draft.outputs, strict=False) if each]
    finite = all(np.isfinite(value).all() for value in feed.values())
    for answer, want in zip(answers, kept, strict=True):
        assert answer.shape == want.shape and answer.dtype == want.dtype, (case, answer.shape, want.shape, draft)
        if finite and draft.name != "DynamicResize":
            tolerance = 1e-4 if want.dtype == np.float32 else 1e-9
            np.testing.assert_allclose(answer, want, rtol=tolerance, atol=tolerance, err_msg=case)
        elif finite:
            assert (np.abs(answer) <= 2.5 * np.abs(feed["x"]).max(initial=0)).all(), case


def test_every_kernel_of_the_domain_is_here():
    assert set(KERNELS) == set(domain.ATTRIBUTES)


@pytest.mark.parametrize("names", [tuple(KERNELS)[:4], tuple(KERNELS)[4:]], ids=lambda names: "-".join(names))
def test_ten_thousand_calls_of_each_under_the_sanitizers(names: tuple[str, ...]):
    code = f"""
import sys
sys.path.insert(0, "tests/unit")
import test_op_malformed
for name in {names}:
    for outcome, count in test_op_malformed.fuzz(name, {str(build.compile_sanitized("ort"))!r}).items():
        print(name, outcome, count, sep=": ", flush=True)
print("clean")
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], env=sanitizer_env(), capture_output=True, text=True, cwd=root, timeout=900
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    *lines, last = done.stdout.strip().splitlines()
    assert last == "clean"
    found = {tuple(line.split(": ")[:2]): int(line.split(": ")[2]) for line in lines}
    for name in names:  # a fuzz whose cases have all become alike would be clean too
        for outcome, least in (
            ("refused when loaded", 20),
            ("loaded", 50),
            ("refused when run", 300),
            ("answered", 1000),
        ):
            assert found.get((name, outcome), 0) >= least, lines
