// The operator c07_ops::my_add, on the stable ABI. Its loop is in loop.cpp.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "loop.h"

using torch::stable::Tensor;

Tensor my_add(const Tensor& a, const Tensor& b, double alpha, double beta) {
  STD_TORCH_CHECK(a.dim() == b.dim(), "a and b must have the same shape.");
  for (int64_t i = 0; i < a.dim(); ++i)
    STD_TORCH_CHECK(a.size(i) == b.size(i), "a and b must have the same shape.");
  const Tensor x = torch::stable::contiguous(a), z = torch::stable::contiguous(b);
  Tensor y = torch::stable::empty_like(x);
  add_scaled(x.const_data_ptr<float>(), z.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
             y.numel(), alpha, beta);
  return y;
}

STABLE_TORCH_LIBRARY(c07_ops, m) {
  m.def("my_add(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(c07_ops, CPU, m) { m.impl("my_add", TORCH_BOX(&my_add)); }
