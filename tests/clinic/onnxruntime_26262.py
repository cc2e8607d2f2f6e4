"""Attention with present_key and without past_key."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.clinic.tools import refusal, run
from tests.support.models import model_of

X = np.ones((1, 1, 4, 8), np.float32)


def attention(*outputs: str):
    """A model of one node with these outputs."""
    return model_of(
        [helper.make_node("Attention", ["q", "k", "v"], list(outputs), is_causal=1)],
        dict.fromkeys("qkv", "f4"),
        dict.fromkeys(outputs, "f4"),
        dict.fromkeys("qkv", list(X.shape)),
        domains=(),
        opset=23,
    )


def happens() -> bool:
    return bool(refusal(Exception, run, attention("y", "present_key", "present_value"), X, X, X))


def way_around() -> None:
    assert run(attention("y"), X, X, X)[0].shape == X.shape
