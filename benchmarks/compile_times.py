"""How long one operator takes to compile, in four ways, in one run.

    python benchmarks/compile_times.py [--repeat 3] [--json FILE]

The same `my_add` is compiled as a pybind11 extension on `torch/extension.h`, with `TORCH_LIBRARY` on ATen, on PyTorch's
stable ABI and as a custom-op library of ONNX Runtime. The ways take turns, so that a busy machine slows all of them alike,
and the fastest of the repetitions counts. Nothing comes from a cache. The processor's time is what the compiler itself
used: on a busy machine it says more than the clock.
"""

from __future__ import annotations

import argparse
import json
import resource
import sysconfig
import tempfile
import time
from pathlib import Path

from oplab.toolchain.build import compile_library
from oplab.toolchain.compiler import find_compiler, run
from oplab.toolchain.recipes import torch_folder

PYBIND = """\
#include <torch/extension.h>

torch::Tensor my_add(const torch::Tensor& a, const torch::Tensor& b) { return 3 * a + 2 * b; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("my_add", my_add); }
"""

ATEN = """\
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor my_add(const at::Tensor& a, const at::Tensor& b, double alpha, double beta) { return alpha * a + beta * b; }

TORCH_LIBRARY(bench_aten, m) { m.def("my_add(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor", &my_add); }
"""

STABLE = """\
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

Tensor my_add(const Tensor& a, const Tensor& b, double alpha, double beta) {
  const Tensor x = torch::stable::contiguous(a), z = torch::stable::contiguous(b);
  Tensor y = torch::stable::empty_like(x);
  const float *px = x.const_data_ptr<float>(), *pz = z.const_data_ptr<float>();
  float* py = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) py[i] = float(alpha) * px[i] + float(beta) * pz[i];
  return y;
}

STABLE_TORCH_LIBRARY(bench_stable, m) { m.def("my_add(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(bench_stable, CPU, m) { m.impl("my_add", TORCH_BOX(&my_add)); }
"""

ORT = """\
#include <onnxruntime_lite_custom_op.h>

using Ort::Custom::Tensor;

void my_add(const Tensor<float>& a, const Tensor<float>& b, Tensor<float>& y) {
  const float *pa = a.Data(), *pb = b.Data();
  float* py = y.Allocate(a.Shape());
  for (int64_t i = 0, n = a.NumberOfElement(); i < n; ++i) py[i] = 3 * pa[i] + 2 * pb[i];
}

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  Ort::InitApi(api);
  static Ort::Custom::OrtLiteCustomOp* op = Ort::Custom::CreateLiteCustomOp("MyAdd", "CPUExecutionProvider", my_add);
  static const Ort::CustomOpDomain domain = [] {
    Ort::CustomOpDomain made{"bench"};
    made.Add(op);
    return made;
  }();
  return api->AddCustomOpDomain(options, domain);
}
"""


def old_way(source: Path, made: Path) -> None:
    """What `torch.utils.cpp_extension.load` runs, without its build system: optimised, C++20, linked with libtorch."""
    torch = torch_folder()
    folders = [torch / "include", torch / "include/torch/csrc/api/include", sysconfig.get_path("include")]
    libraries = ["-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10"]
    command = [
        *find_compiler().command,
        *("-std=c++20", "-O3", "-fPIC", "-shared", "-DTORCH_EXTENSION_NAME=bench_pybind"),
        *(f"-isystem{folder}" for folder in folders),
        *(str(source), "-o", str(made), f"-L{torch / 'lib'}", *libraries),
    ]
    done = run(command, timeout=600)
    if done.returncode != 0:
        raise SystemExit(done.log)


WAYS = {
    "torch/extension.h, pybind11": (PYBIND, lambda source, folder: old_way(source, folder / "pybind.so")),
    "torch/library.h, TORCH_LIBRARY": (ATEN, lambda source, folder: old_way(source, folder / "aten.so")),
    "stable ABI, STABLE_TORCH_LIBRARY": (
        STABLE,
        lambda source, folder: compile_library(source, "torch", cache=folder),
    ),
    "ONNX Runtime, lite custom op": (ORT, lambda source, folder: compile_library(source, "ort", cache=folder)),
}


def children() -> float:
    """Seconds of processor time that ended child processes have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="how often each way is compiled (default: 3)")
    parser.add_argument("--json", type=Path, help="also write the seconds to this file")
    options = parser.parse_args()

    find_compiler()  # asked once, outside of what is measured
    clock = dict.fromkeys(WAYS, float("inf"))
    processor = dict(clock)
    for _ in range(options.repeat):
        for name, (text, compile_one) in WAYS.items():
            with tempfile.TemporaryDirectory() as scratch:
                source = Path(scratch) / "my_add.cpp"
                source.write_text(text)
                start, used = time.perf_counter(), children()
                compile_one(source, Path(scratch))
                clock[name] = min(clock[name], time.perf_counter() - start)
                processor[name] = min(processor[name], children() - used)

    fastest = min(processor.values())
    print(f"{find_compiler()}, best of {options.repeat}")
    print(f"{'way':34} {'clock, s':>9} {'processor, s':>13} {'ratio':>6}")
    for name in WAYS:
        print(f"{name:34} {clock[name]:9.2f} {processor[name]:13.2f} {processor[name] / fastest:6.1f}")
    if options.json:
        options.json.write_text(json.dumps({"clock": clock, "processor": processor}, indent=1) + "\n")


if __name__ == "__main__":
    main()
