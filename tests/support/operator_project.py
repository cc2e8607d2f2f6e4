"""A small operator project, my::Twist, of the layout that `oplab new-operator` makes: y = alpha * x + tanh(x)."""

from __future__ import annotations

from pathlib import Path

from tests.support import ROOT

NAME = "twist"
CSRC = ROOT / "csrc"
FORMULA = """\
#pragma once
#include <cmath>
#include <cstdint>
template <typename T>
void twist(const T* x, double alpha, int64_t size, T* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = static_cast<T>(alpha) * x[i] + std::tanh(x[i]);
}
"""
TORCH = """\
#include <torch/csrc/stable/library.h>
#include "oplab/torch_kernel.h"
#include "twist.h"
using torch::stable::Tensor;
namespace {
Tensor run(const Tensor& x, double alpha) {
  const Tensor flat = torch::stable::contiguous(x);
  Tensor y = torch::stable::empty_like(flat);
  THO_DISPATCH_V2(x.scalar_type(), "twist", AT_WRAP([&] {
    twist<scalar_t>(flat.const_data_ptr<scalar_t>(), alpha, flat.numel(), y.mutable_data_ptr<scalar_t>());
  }), torch::headeronly::ScalarType::Float, torch::headeronly::ScalarType::Double);
  return y;
}
}  // namespace
STABLE_TORCH_LIBRARY(my, m) { m.def("twist(Tensor x, float alpha=0.5) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(my, CPU, m) { m.impl("twist", TORCH_BOX(&run)); }
"""
ORT = """\
#include "oplab/oplab_kernel.h"
#include "twist.h"
namespace {
template <typename T>
struct Twist {
  Twist(const OrtApi*, const OrtKernelInfo* info) : alpha(oplab::float_attribute(info, "alpha", 0.5f)) {}
  Ort::Status Compute(OrtKernelContext*, const oplab::Tensor<T>& x, oplab::Tensor<T>& y) {
    twist<T>(x.Data(), alpha, x.NumberOfElement(), y.Allocate(x.Shape()));
    return Ort::Status{nullptr};
  }
  static void InferShapes(oplab::Shapes& shapes) { oplab::infer_same_shape(shapes); }
  const float alpha;
};
}  // namespace
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain domain{"my"};
    oplab::add_for<Twist, float, double>(domain, "Twist");
    return domain;
  });
}
"""
INIT = """\
from pathlib import Path

import torch

ort_library = Path(__file__).with_name("twist_ort.so")
torch.ops.load_library(str(Path(__file__).with_name("twist_torch.so")))


@torch.library.register_fake("my::twist")
def _fake(x, alpha=0.5):
    return torch.empty_like(x)
"""
EXPORT = """\
import torch
from onnxscript import FLOAT, script
from onnxscript.values import Opset
from torch.onnx.symbolic_helper import parse_args

_my = Opset("my", 1)


@script(_my)
def _translation(x: FLOAT[...], alpha: float = 0.5) -> FLOAT[...]:
    return _my.Twist(x, alpha=alpha)


@parse_args("v", "f")
def _symbolic(g, x, alpha):
    return g.op("my::Twist", x, alpha_f=alpha).setType(x.type())


def export(model, args, file, exporter="dynamo", dynamic=None):
    dynamic = dynamic or {}
    if exporter == "dynamo":
        torch.onnx.export(model, args, file, dynamo=True, verbose=False, external_data=False, input_names=["x"],
                          dynamic_shapes=[dynamic.get("x", {})],
                          custom_translation_table={torch.ops.my.twist.default: _translation})
    else:
        torch.onnx.register_custom_op_symbolic("my::twist", _symbolic, 18)
        torch.onnx.export(model, args, file, dynamo=False, opset_version=18, input_names=["x"], dynamic_axes=dynamic)
"""
REFERENCE = """\
import numpy as np
from onnx.reference.op_run import OpRun


def twist(x, alpha=0.5):
    return (alpha * x + np.tanh(x)).astype(x.dtype)


class Twist(OpRun):
    op_domain = "my"

    def _run(self, x, alpha=0.5):
        return (twist(x, alpha),)
"""
EXAMPLE = """\
import numpy as np
import torch
import twist  # noqa: F401


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return torch.ops.my.twist(torch.ops.my.twist(x, 0.25) * self.scale, 0.75)


def example_args():
    return (torch.ones(2, 3),)


def cases(rng):
    return {"small": {"x": rng.standard_normal((2, 3), dtype=np.float32)},
            "large": {"x": rng.standard_normal((50, 40), dtype=np.float32)},
            "empty": {"x": np.zeros((0, 4), np.float32)}}


dynamic_shapes = {"x": {0: "rows", 1: "columns"}}
"""
TESTS = """\
import numpy as np
import torch
import twist  # noqa: F401


def test_value():
    assert torch.allclose(torch.ops.my.twist(torch.zeros(3) + 1, 2.0), torch.full((3,), 2 + np.tanh(1.0)))


def test_words():
    assert "twist" in twist.__file__
"""
PYPROJECT = """\
[project]
name = "twist"
version = "0.1.0"

[tool.oplab]
operator = "my::Twist"
"""


def make(folder: Path, *, host: bool = True) -> Path:
    """Write the project's sources into a new folder, and return it."""
    text = {
        "pyproject.toml": PYPROJECT,
        "cpp/twist.h": FORMULA,
        "cpp/torch_op.cpp": TORCH,
        "cpp/ort_op.cpp": ORT,
        "src/twist/__init__.py": INIT,
        "src/twist/export.py": EXPORT,
        "src/twist/reference.py": REFERENCE,
        "src/twist/twist_ort.toml": 'domain = "my"\nversions = [1]\n\n[operators]\nTwist = ["alpha"]\n',
        "tests/example.py": EXAMPLE,
        "tests/test_twist.py": TESTS,
    }
    for header in ("ort_ops/oplab_kernel.h", "torch_ops/torch_kernel.h", "common/text.h", "ort_ops/exports.map"):
        copied = (CSRC / header).read_text().replace("../common/", "")
        text[f"cpp/oplab/{Path(header).name}"] = copied
    for file in sorted((CSRC / "host").glob("*.[ch]*")) if host else ():
        text[f"host/{file.name}"] = file.read_text().replace("../common/", "../cpp/oplab/")
    for name, content in text.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder
