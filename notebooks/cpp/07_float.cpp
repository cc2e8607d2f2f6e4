// Wrong: `float alpha`, where the schema's `float` needs a `double`.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

Tensor my_add(const Tensor& a, const Tensor& b, float alpha, float beta) {
  const Tensor x = torch::stable::contiguous(a), z = torch::stable::contiguous(b);
  Tensor y = torch::stable::empty_like(x);
  const float *px = x.const_data_ptr<float>(), *pz = z.const_data_ptr<float>();
  float* py = y.mutable_data_ptr<float>();
  for (int64_t i = 0; i < y.numel(); ++i) py[i] = float(alpha) * px[i] + float(beta) * pz[i];
  return y;
}

STABLE_TORCH_LIBRARY(lab07_float, m) {
  m.def("my_add(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(lab07_float, CPU, m) { m.impl("my_add", TORCH_BOX(&my_add)); }
