// c07.my_add: torch.ops.c07_my_add.my_add(a, b, alpha=3.0, beta=2.0)
// computes alpha*a + beta*b. b has the first axes of a (all of them,
// some or none), and each of its numbers belongs to a whole block of a:
// for a of shape [2, 3, 4] and b of shape [2], y[i] = alpha*a[i] +
// beta*b[i]. NumPy's rule, which looks at the last axes and repeats
// axes of size 1, does not apply.
// a and b have the same dtype (float32 or float64) and any layout;
// everything else is an error (STD_TORCH_CHECK).
// The result is a new contiguous tensor of a's shape and dtype, even if
// it equals an input.
// It is called many times: with different sizes, after errors, and from
// several threads at once. No access is out of bounds.
// Not allowed (contains the answer): csrc/torch_ops/my_add.cpp.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// ANSWER c07.my_add: c07_my_add::my_add: its schema with the defaults, and its CPU kernel
template <typename T>
Tensor weighted_sum(const Tensor& a, const Tensor& b, double alpha, double beta) {
  const Tensor x = torch::stable::contiguous(a), z = torch::stable::contiguous(b);
  Tensor y = torch::stable::empty_like(x);
  const T *px = x.const_data_ptr<T>(), *pz = z.const_data_ptr<T>();
  T* py = y.mutable_data_ptr<T>();
  const int64_t m = z.numel(), block = y.numel() / std::max<int64_t>(m, 1);
  for (int64_t j = 0; j < m; ++j)
    for (int64_t i = j * block; i < (j + 1) * block; ++i)
      py[i] = static_cast<T>(alpha) * px[i] + static_cast<T>(beta) * pz[j];
  return y;
}

Tensor my_add(const Tensor& a, const Tensor& b, double alpha, double beta) {
  const auto m = a.sizes(), n = b.sizes();
  STD_TORCH_CHECK(n.size() <= m.size() && std::equal(n.begin(), n.end(), m.begin()),
                  "The axes of b must be the first axes of a.");
  STD_TORCH_CHECK(a.scalar_type() == b.scalar_type(), "a and b must have the same dtype.");
  if (a.scalar_type() == ScalarType::Float) return weighted_sum<float>(a, b, alpha, beta);
  STD_TORCH_CHECK(a.scalar_type() == ScalarType::Double, "a and b must be float32 or float64.");
  return weighted_sum<double>(a, b, alpha, beta);
}

STABLE_TORCH_LIBRARY(c07_my_add, m) {
  m.def("my_add(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(c07_my_add, CPU, m) { m.impl("my_add", TORCH_BOX(&my_add)); }
// END
