#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <vector>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Follows the strides instead of copying: one odometer over the indices of the result.
template <typename T>
Tensor weighted_sum(const Tensor& a, const Tensor& b, double alpha, double beta) {
  const auto sizes = a.sizes(), sa = a.strides(), sb = b.strides();
  Tensor y = torch::stable::new_empty(a, sizes);
  const T *pa = a.const_data_ptr<T>(), *pb = b.const_data_ptr<T>();
  T* py = y.mutable_data_ptr<T>();
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t at = 0, bt = 0;
  for (int64_t i = 0, n = y.numel(); i < n; ++i) {
    py[i] = static_cast<T>(alpha * pa[at] + beta * pb[bt]);
    for (int64_t k = static_cast<int64_t>(sizes.size()) - 1; k >= 0; --k) {
      at += sa[k];
      bt += sb[k];
      if (++index[k] < sizes[k]) break;
      at -= sa[k] * sizes[k];
      bt -= sb[k] * sizes[k];
      index[k] = 0;
    }
  }
  return y;
}

Tensor my_add(const Tensor& a, const Tensor& b, double alpha, double beta) {
  const auto m = a.sizes(), n = b.sizes();
  STD_TORCH_CHECK(std::equal(m.begin(), m.end(), n.begin(), n.end()), "a and b must have the same shape.");
  STD_TORCH_CHECK(a.scalar_type() == b.scalar_type(), "a and b must have the same dtype.");
  if (a.scalar_type() == ScalarType::Float) return weighted_sum<float>(a, b, alpha, beta);
  STD_TORCH_CHECK(a.scalar_type() == ScalarType::Double, "a and b must be float32 or float64.");
  return weighted_sum<double>(a, b, alpha, beta);
}

STABLE_TORCH_LIBRARY(c07_my_add, m) { m.def("my_add(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(c07_my_add, CPU, m) { m.impl("my_add", TORCH_BOX(&my_add)); }
