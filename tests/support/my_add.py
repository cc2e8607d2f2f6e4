"""``oplab::MyAdd``: models of it, inputs, and a learner's library with another answer."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import helper

from tests.support.cpp import library
from tests.support.models import model_of

_LEARNER = """\
struct Learner {
  Learner(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(const Ort::Custom::Tensor<float>& a, const Ort::Custom::Tensor<float>&,
                      Ort::Custom::Tensor<float>& y) {
    float* py = y.Allocate(a.Shape());
    for (int64_t i = 0; i < a.NumberOfElement(); ++i) py[i] = 42;
    return Ort::Status{nullptr};
  }
};
"""


def learner(domain: str = "oplab", name: str = "MyAdd") -> str:
    """A learner's library: the same domain and name, another answer."""
    return library(_LEARNER, "Learner", domain, name)


def model(*, dtype=np.float32, shape=None, nodes: list | None = None, domains=(("oplab", 1),), **attributes):
    nodes = nodes or [helper.make_node("MyAdd", ["a", "b"], ["y"], domain="oplab", **attributes)]
    types, shapes = dict.fromkeys("ab", dtype), dict.fromkeys("aby", shape)
    return model_of(nodes, types, {"y": dtype}, shapes, domains=domains)


def pair(*shape: int, dtype=np.float32) -> dict[str, np.ndarray]:
    random = np.random.default_rng(sum(shape))
    return {name: random.standard_normal(shape).astype(dtype) for name in "ab"}


def run(session: onnxruntime.InferenceSession, feed: dict[str, np.ndarray]) -> np.ndarray:
    (y,) = session.run(None, feed)
    return y
