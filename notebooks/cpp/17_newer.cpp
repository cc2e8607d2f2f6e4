// Uses a function that is new in PyTorch 2.14.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

static bool has_storage(const torch::stable::Tensor& x) { return x.has_storage(); }

STABLE_TORCH_LIBRARY(lab17_newer, m) { m.def("has_storage(Tensor x) -> bool"); }
STABLE_TORCH_LIBRARY_IMPL(lab17_newer, CPU, m) {
  m.impl("has_storage", TORCH_BOX(&has_storage));
}
