// windows(x, size=3, wrap=False): row i has the values x[i], x[i + 1], … x[i + size - 1].
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

Tensor windows(const Tensor& x, int64_t size, bool wrap) {
  STD_TORCH_CHECK(x.dim() == 1, "x must have one axis.");
  const int64_t n = x.size(0);
  STD_TORCH_CHECK(1 <= size && size <= n, "size must be 1 to ", n, ", but is ", size, ".");
  const int64_t rows = wrap ? n : n - size + 1;
  const Tensor in = torch::stable::contiguous(x);
  Tensor out = torch::stable::new_empty(in, {rows, size});
  const float* px = in.const_data_ptr<float>();
  float* py = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < size; ++k) py[i * size + k] = px[(i + k) % n];
  return out;
}

STABLE_TORCH_LIBRARY(lab07_windows, m) {
  m.def("windows(Tensor x, int size=3, bool wrap=False) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(lab07_windows, CPU, m) { m.impl("windows", TORCH_BOX(&windows)); }
