// oplab::my_add(a, b, alpha, beta) -> alpha*a + beta*b
#include "operators.h"
#include "torch_kernel.h"

namespace oplab {
namespace {

template <typename T>
void weighted_sum(const Tensor& a, const Tensor& b, double alpha, double beta, Tensor& y) {
  using Compute = opmath_t<T>;
  const auto s = static_cast<Compute>(alpha), t = static_cast<Compute>(beta);
  const T* pa = a.const_data_ptr<T>();
  const T* pb = b.const_data_ptr<T>();
  T* py = y.mutable_data_ptr<T>();
  torch::stable::parallel_for(0, a.numel(), 32768, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      py[i] = static_cast<T>(s * static_cast<Compute>(pa[i]) + t * static_cast<Compute>(pb[i]));
    }
  });
}

}  // namespace

Tensor my_add(const Tensor& a, const Tensor& b, double alpha, double beta) {
  STD_TORCH_CHECK(same_shape(a, b), "a and b must have the same shape, but a is ", shape_text(a), " and b is ",
                  shape_text(b), ".");
  STD_TORCH_CHECK(a.scalar_type() == b.scalar_type(), "a and b must have the same dtype, but a is ",
                  toString(a.scalar_type()), " and b is ", toString(b.scalar_type()), ".");
  STD_TORCH_CHECK(is_floating_point(a), "a and b must be float32, float64, float16 or bfloat16, but they are ",
                  toString(a.scalar_type()), ".");
  // The loop walks memory in order, so both inputs are made contiguous; a contiguous tensor is not copied.
  const Tensor a_flat = torch::stable::contiguous(a);
  const Tensor b_flat = torch::stable::contiguous(b);
  // Always a new tensor: a functional operator must not return one of its inputs.
  Tensor y = torch::stable::empty_like(a_flat);
  THO_DISPATCH_V2(a.scalar_type(), "my_add", AT_WRAP([&] { weighted_sum<scalar_t>(a_flat, b_flat, alpha, beta, y); }),
                  ScalarType::Float, ScalarType::Double, ScalarType::Half, ScalarType::BFloat16);
  return y;
}

}  // namespace oplab
