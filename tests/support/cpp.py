"""C++ of a learner's custom operators, as far as it is the same in all of them."""

from __future__ import annotations

import shlex
from pathlib import Path

from oplab.toolchain.compiler import find_compiler

_REGISTER = """
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  Ort::InitApi(api);
  static const oplab::Op<KERNEL> op{"NAME"};
  static const Ort::CustomOpDomain domain = [] {
    Ort::CustomOpDomain made{"DOMAIN"};
    made.Add(&op);
    return made;
  }();
  return api->AddCustomOpDomain(options, domain);
}
"""


def library(kernel: str, struct: str, domain: str, name: str | None = None) -> str:
    """The source of a library with one kernel.

    Args:
        kernel: C++ that defines the struct; ``oplab_kernel.h`` is included before it.
        struct: the struct's name.
        name: the operator's name; the struct's if left out.
    """
    register = _REGISTER.replace("KERNEL", struct).replace("NAME", name or struct).replace("DOMAIN", domain)
    return f'#include "oplab_kernel.h"\n\n{kernel}{register}'


# For library(): y = 2a.
TWICE = """\
struct Twice {
  Twice(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(const oplab::Tensor<float>& a, oplab::Tensor<float>& y) {
    const float* pa = a.Data();
    float* py = y.Allocate(a.Shape());
    for (int64_t i = 0; i < a.NumberOfElement(); ++i) py[i] = 2 * pa[i];
    return Ort::Status{nullptr};
  }
};
"""

# What a learner of chapter 12 would write: one file, no header of the course.
KERNEL = """\
#include <onnxruntime_lite_custom_op.h>

using Ort::Custom::Tensor;

struct Twice {
  Twice(const OrtApi*, const OrtKernelInfo*) {}
  void Compute(const Tensor<float>& a, Tensor<float>& y) {
    const float* pa = a.Data();
    float* py = y.Allocate(a.Shape());
    for (int64_t i = 0; i < a.NumberOfElement(); ++i) {
      py[i] = 2 * pa[i];
    }
  }
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  Ort::InitApi(api);
  static const Ort::Custom::OrtLiteCustomStruct<Twice> op{"Twice", "CPUExecutionProvider"};
  static const Ort::CustomOpDomain domain = [] {
    Ort::CustomOpDomain made{"test.twice"};
    made.Add(&op);
    return made;
  }();
  return api->AddCustomOpDomain(options, domain);
}
"""


OPERATOR = """\
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

torch::stable::Tensor zeros_of(torch::stable::Tensor a) {
  torch::stable::Tensor y = torch::stable::empty_like(a);
  return torch::stable::zero_(y);
}

STABLE_TORCH_LIBRARY(test_toolchain, m) { m.def("zeros_of(Tensor a) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(test_toolchain, CPU, m) { m.impl("zeros_of", TORCH_BOX(&zeros_of)); }
"""

# Returns its argument, and prints what only a program that is linked with ONNX Runtime has before main begins.
PROGRAM = """\
#include <onnxruntime_cxx_api.h>

#include <cstdio>
#include <cstdlib>

int main(int, char** argv) {
  std::printf("%s, a table: %d\\n", OrtGetApiBase()->GetVersionString(), Ort::GetApi().GetBuildInfoString() != nullptr);
  return std::atoi(argv[1]);
}
"""


def write(folder: Path, text: str, name: str = "c12_twice.cpp") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def compiler_script(folder: Path, text: str) -> Path:
    """A compiler for ``CXX``: a shell script, in which REAL stands for the machine's own compiler."""
    path = write(folder, f"#!/bin/sh\n{text}\n".replace("REAL", shlex.join(find_compiler().command)), "script-c++")
    path.chmod(0o755)
    return path


def endless_compiler(folder: Path) -> Path:
    """A compiler for ``CXX`` that says what it is and never ends otherwise; it prints the number of the process that it waits for."""
    return compiler_script(folder, 'case "$1" in -dM) exec REAL "$@";; esac\nsleep 600 & echo $!\nwait')
