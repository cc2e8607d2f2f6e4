"""10 000 random shapes through grid and foo, in PyTorch and in ONNX Runtime, with the sanitizers watching.

Each case has one right outcome, an array or a refusal of one argument, worked out here in Python. Both runtimes have to
come to it, and refuse in the same words.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from oplab import ops
from oplab.toolchain import build
from tests.support import foo, grid
from tests.support.fuzz import DTYPES, ODD_VALUES, expect_variety, outcome, same_outcome, strided, under_the_sanitizers

pytestmark = pytest.mark.nightly

CASES = 10_000


@functools.cache
def grid_session(library: str, dtype: type, inputs: tuple[str, ...]):
    return ops.session(grid.make_model(inputs, dtype), libraries=[library], threads=2)


def grid_case(random: np.random.Generator, library: str) -> str:
    import torch

    dtype = DTYPES[random.integers(2)]
    long = random.random() < 0.004  # more than one piece of the kernels' loops
    rank = random.choice([0, 1, 2, 3, 4], p=[0.02, 0.13, 0.65, 0.15, 0.05])
    shape = [
        int(random.integers(8_000, 20_000))
        if long
        else int(random.choice([0, 1, 2, 5, 30], p=[0.1, 0.2, 0.2, 0.3, 0.2]))
    ]
    shape = (shape + [int(side) for side in random.integers(1, 5, 3)])[:rank]
    if rank > 1 and random.random() < 0.02:
        shape[-1] = 0
    d = math.prod(shape[1:])
    scale = 10.0 ** random.integers(-3, 4)
    feed = {"pos": random.normal(0, scale, shape), "size": random.uniform(0.02, 3, d) * scale}
    if random.random() < 0.5:
        feed["start"] = random.normal(-2, 1, d) * scale
    if random.random() < 0.5:
        feed["end"] = random.normal(2, 1, d) * scale
    for name in feed:
        if name != "pos" and random.random() < 0.03:
            wrong = [(d + 1,), (max(d - 1, 0),), (1, d), ()]
            feed[name] = random.uniform(0.5, 1, wrong[random.integers(4)])
        feed[name] = np.asarray(feed[name], dtype)
        if feed[name].size and random.random() < 0.06:
            feed[name].flat[random.integers(feed[name].size)] = random.choice(ODD_VALUES)

    inputs = tuple(name if name in feed else "" for name in ("pos", "size", "start", "end"))
    if random.random() < 0.5:
        while not inputs[-1]:
            inputs = inputs[:-1]
    session = grid_session(library, dtype, inputs)
    in_torch = {name: torch.from_numpy(strided(value, random)) for name, value in feed.items()}
    with np.errstate(all="ignore"):
        refused = grid.refused_argument(**feed)
        expected = None if refused else grid.reference(**feed)
    return judged(
        refused,
        expected,
        outcome(lambda: (torch.ops.oplab.grid(**in_torch).numpy(),)),
        outcome(lambda: session.run(None, feed)),
    )


@functools.cache
def foo_session(library: str, dtype: type, attr1: float, attr2: int):
    model = foo.make_model(dtype, attr1=attr1, attr2=attr2)
    return ops.session(model, libraries=[library], threads=2)


def foo_case(random: np.random.Generator, library: str) -> str:
    import torch

    dtype = DTYPES[random.integers(2)]
    attr1, attr2 = ((0.5, 2), (-1.5, 3), (1.0, 0), (0.0, 1), (2.0, -1), (0.25, 5))[random.integers(6)]
    shape = tuple(
        int(side) for side in random.choice([0, 1, 2, 3, 7], random.integers(6), p=[0.06, 0.2, 0.3, 0.3, 0.14])
    )
    if random.random() < 0.01:
        shape = (int(random.integers(2_000, 9_000)),)
    other = shape
    if random.random() < 0.1:
        other = ((*shape, 1), shape[:-1], (1, *shape), (*shape[:-1], 4))[random.integers(4)]
    feed = {}
    for name, sides in (("input1", shape), ("input2", other)):
        feed[name] = np.asarray(random.uniform(0.5, 2, sides) * random.choice([-1, 1], sides), dtype)
        if feed[name].size and random.random() < 0.2:
            feed[name].flat[random.integers(feed[name].size)] = random.choice(ODD_VALUES)

    session = foo_session(library, dtype, attr1, attr2)
    in_torch = [torch.from_numpy(strided(value, random)) for value in feed.values()]
    refused = None if shape == other else "input1 and input2"
    expected = None if refused else foo.reference(**feed, attr1=attr1, attr2=attr2)
    half = torch.float16 if attr2 > 0 else torch.bfloat16
    if not refused:  # these two have no kernel in ONNX Runtime
        torch.ops.oplab.foo_forward(*(value.to(half) for value in in_torch), attr1, attr2)
    return judged(
        refused,
        expected,
        outcome(lambda: (torch.ops.oplab.foo_forward(*in_torch, attr1, attr2).numpy(),)),
        outcome(lambda: session.run(None, feed)),
    )


def judged(refused: str | None, expected, in_torch: tuple, in_ort: tuple) -> str:
    if not same_outcome(refused, in_torch, in_ort):
        return f"refused for {refused}"
    (answer,) = in_torch[0]
    assert answer.dtype == expected.dtype
    if answer.dtype == np.int64:
        np.testing.assert_array_equal(answer, expected)
    else:
        np.testing.assert_allclose(answer, expected, rtol=4e-6 if answer.dtype == np.float32 else 1e-14, atol=1e-6)
    return "answered"


def test_ten_thousand_shapes_under_the_sanitizers():
    code = f"""
import torch
from tests.kernels.test_op_fuzz import foo_case, grid_case
from tests.support.fuzz import fuzz
torch.ops.load_library({str(build.compile_sanitized("torch"))!r})
for outcome, count in fuzz(range({CASES}), (grid_case, foo_case), 2026, {str(build.compile_sanitized("ort"))!r}).items():
    print(outcome, count, sep=": ")
"""
    least = {
        "grid_case: answered": 3000,
        "grid_case: refused for pos": 100,
        "grid_case: refused for size": 100,
        "grid_case: refused for start": 30,
        "grid_case: refused for end": 30,
        "foo_case: answered": 4000,
        "foo_case: refused for input1 and input2": 200,
    }
    expect_variety(under_the_sanitizers(code), least)
