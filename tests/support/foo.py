"""``oplab::Foo``: models of one node, inputs, and a reference in Python."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.support.models import model_of

EXPONENTS = [0, 1, 2, 3, 5, -1, -2]


def reference(input1: np.ndarray, input2: np.ndarray, attr1: float, attr2: int) -> np.ndarray:
    """The power in double, by repeated multiplication: it owes nothing to the kernels' way of computing."""
    power = np.ones(input2.shape)
    with np.errstate(all="ignore"):
        for _ in range(abs(attr2)):
            power = power * input2.astype(np.float64)
        if attr2 < 0:
            power = 1 / power
        return input1.dtype.type(attr1) * input1 + power.astype(input1.dtype)


def pair(*shape: int, dtype=np.float32) -> dict[str, np.ndarray]:
    random = np.random.default_rng([7, *shape])
    input1 = random.standard_normal(shape)
    input2 = random.uniform(0.4, 1.8, shape) * random.choice([-1, 1], shape)
    return {"input1": np.asarray(input1, dtype), "input2": np.asarray(input2, dtype)}


def make_model(dtype=np.float32, shapes=(None, None), version: int | None = 2, **attributes):
    node = helper.make_node("Foo", ["input1", "input2"], ["y"], domain="oplab", **attributes)
    inputs = dict.fromkeys(node.input, dtype)
    domains = [("oplab", version)] if version else []
    return model_of([node], inputs, {"y": dtype}, dict(zip(inputs, shapes, strict=True)), domains=domains)
