// oplab::foo_forward(input1, input2, attr1, attr2) -> attr1*input1 + input2**attr2
#include "../common/power.h"
#include "operators.h"
#include "torch_kernel.h"

namespace oplab {
namespace {

template <typename T>
void compute(const Tensor& input1, const Tensor& input2, double attr1, int64_t attr2, Tensor& y) {
  const auto scale = static_cast<opmath_t<T>>(attr1);
  const T* p1 = input1.const_data_ptr<T>();
  const T* p2 = input2.const_data_ptr<T>();
  T* py = y.mutable_data_ptr<T>();
  torch::stable::parallel_for(0, y.numel(), 2048, [=](int64_t begin, int64_t end) {
    scaled_plus_power(p1, p2, scale, attr2, begin, end, py);
  });
}

}  // namespace

Tensor foo_forward(const Tensor& input1, const Tensor& input2, double attr1, int64_t attr2) {
  STD_TORCH_CHECK(same_shape(input1, input2), "input1 and input2 must have the same shape, but input1 is ",
                  shape_text(input1), " and input2 is ", shape_text(input2), ".");
  STD_TORCH_CHECK(input1.scalar_type() == input2.scalar_type(),
                  "input1 and input2 must have the same dtype, but input1 is ", toString(input1.scalar_type()),
                  " and input2 is ", toString(input2.scalar_type()), ".");
  STD_TORCH_CHECK(is_floating_point(input1),
                  "input1 and input2 must be float32, float64, float16 or bfloat16, but they are ",
                  toString(input1.scalar_type()), ".");
  STD_TORCH_CHECK(-kLargestExponent <= attr2 && attr2 <= kLargestExponent,
                  "attr2 must be between -2**53 and 2**53, but it is ", attr2, ".");

  const Tensor flat1 = torch::stable::contiguous(input1);
  const Tensor flat2 = torch::stable::contiguous(input2);
  Tensor y = torch::stable::empty_like(flat1);
  THO_DISPATCH_V2(input1.scalar_type(), "foo_forward",
                  AT_WRAP([&] { compute<scalar_t>(flat1, flat2, attr1, attr2, y); }), ScalarType::Float,
                  ScalarType::Double, ScalarType::Half, ScalarType::BFloat16);
  return y;
}

}  // namespace oplab
