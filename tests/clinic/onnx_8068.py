"""Attention-24 with a key buffer that is only partly filled: which keys does a causal query see?"""

from __future__ import annotations

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.clinic.tools import run
from tests.support.models import model_of

SHAPES = {"q": [1, 1, 1, 4], "k": [1, 1, 4, 4], "v": [1, 1, 4, 4]}
MODEL = model_of(
    [helper.make_node("Attention", ["q", "k", "v", "", "", "", "filled"], ["y"], is_causal=1)],
    {**dict.fromkeys(SHAPES, "f4"), "filled": "i8"},
    {"y": "f4"},
    {**SHAPES, "filled": [1]},
    domains=(),
    opset=24,
)
FEED = {
    "q": np.zeros(SHAPES["q"], np.float32),
    "k": np.zeros(SHAPES["k"], np.float32),
    "v": np.arange(16, dtype=np.float32).reshape(SHAPES["v"]),
    "filled": np.array([3]),
}
MEAN_OF_THREE = FEED["v"][0, 0, :3].mean(0)  # the query is the last of the three keys: it sees all of them


def happens() -> bool:
    found = ReferenceEvaluator(MODEL).run(None, FEED)[0], run(MODEL, *FEED.values())[0]
    return not all(np.allclose(y.ravel(), MEAN_OF_THREE, atol=1e-5) for y in found)


def way_around() -> None:
    # Only the filled part is given: no version of the rule can read the rest.
    seen = model_of(
        [helper.make_node("Attention", ["q", "k", "v"], ["y"])],
        dict.fromkeys(SHAPES, "f4"),
        {"y": "f4"},
        SHAPES | {"k": [1, 1, 3, 4], "v": [1, 1, 3, 4]},
        domains=(),
        opset=23,
    )
    y = run(seen, FEED["q"], FEED["k"][:, :, :3], FEED["v"][:, :, :3])[0]
    assert np.allclose(y.ravel(), MEAN_OF_THREE, atol=1e-5)
