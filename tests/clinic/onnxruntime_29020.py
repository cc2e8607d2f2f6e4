"""Attention with is_causal and fewer queries than keys: does one query see all keys?"""

from __future__ import annotations

import numpy as np
import torch
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.clinic.tools import run
from tests.support.models import model_of

MODEL = model_of(
    [helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)],
    dict.fromkeys("qkv", "f4"),
    {"y": "f4"},
    {"q": [1, 1, 1, 4], "k": [1, 1, 3, 4], "v": [1, 1, 3, 4]},
    domains=(),
    opset=23,
)
FEED = [
    np.zeros((1, 1, 1, 4), np.float32),
    np.zeros((1, 1, 3, 4), np.float32),
    np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4),
]
FIRST_ROW = [0, 1, 2, 3]  # of v: query 0 sees key 0 only


def happens() -> bool:
    return run(MODEL, *FEED)[0].ravel().tolist() != FIRST_ROW


def way_around() -> None:
    reference = ReferenceEvaluator(MODEL).run(None, dict(zip("qkv", FEED, strict=True)))[0]
    assert reference.ravel().tolist() == FIRST_ROW
    torchs = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, FEED), is_causal=True)
    assert torchs.ravel().tolist() == FIRST_ROW
    # A mask says which keys are seen, and leaves nothing to interpret.
    masked = model_of(
        [helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"])],
        {**dict.fromkeys("qkv", "f4"), "mask": "?"},
        {"y": "f4"},
        {"q": [1, 1, 1, 4], "k": [1, 1, 3, 4], "v": [1, 1, 3, 4], "mask": [1, 3]},
        domains=(),
        opset=23,
    )
    assert run(masked, *FEED, np.ones((1, 3), bool))[0].ravel().tolist() == FEED[2].mean(2).ravel().tolist()
