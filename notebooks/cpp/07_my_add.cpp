// The finished operator: it checks its inputs before it takes the first pointer.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

Tensor my_add(const Tensor& a, const Tensor& b, double alpha, double beta) {
  STD_TORCH_CHECK(a.dim() == b.dim(), "a and b must have the same shape.");
  for (int64_t i = 0; i < a.dim(); ++i)
    STD_TORCH_CHECK(a.size(i) == b.size(i), "a and b must have the same shape.");
  const Tensor x = torch::stable::contiguous(a), z = torch::stable::contiguous(b);
  Tensor y = torch::stable::empty_like(x);
  const float *px = x.const_data_ptr<float>(), *pz = z.const_data_ptr<float>();
  float* py = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < y.numel(); ++i) py[i] = float(alpha) * px[i] + float(beta) * pz[i];
  return y;
}

constexpr char SCHEMA[] =
    "my_add(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor";

// The same operator three times: the lesson gives each its own fake and backward.
STABLE_TORCH_LIBRARY(lab07_checked, m) { m.def(SCHEMA); }
STABLE_TORCH_LIBRARY_IMPL(lab07_checked, CPU, m) { m.impl("my_add", TORCH_BOX(&my_add)); }

STABLE_TORCH_LIBRARY(lab07_whole, m) { m.def(SCHEMA); }
STABLE_TORCH_LIBRARY_IMPL(lab07_whole, CPU, m) { m.impl("my_add", TORCH_BOX(&my_add)); }

STABLE_TORCH_LIBRARY(lab07_trained, m) { m.def(SCHEMA); }
STABLE_TORCH_LIBRARY_IMPL(lab07_trained, CPU, m) { m.impl("my_add", TORCH_BOX(&my_add)); }
