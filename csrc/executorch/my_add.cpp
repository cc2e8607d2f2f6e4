// lab::my_add.out(a, b, alpha, beta) -> out = alpha*a + beta*b for ExecuTorch: float and double, any shape. `make executorch`
// compiles it with the headers of ExecuTorch's package.
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <executorch/runtime/kernel/kernel_includes.h>

#include "../common/text.h"

namespace oplab {
namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;

template <typename T>
void weighted_sum(const Tensor& a, const Tensor& b, double alpha, double beta, Tensor& out) {
  const T s = static_cast<T>(alpha), t = static_cast<T>(beta);
  const T* pa = a.const_data_ptr<T>();
  const T* pb = b.const_data_ptr<T>();
  T* py = out.mutable_data_ptr<T>();
  for (ssize_t i = 0; i < a.numel(); ++i) py[i] = s * pa[i] + t * pb[i];
}

// No exception may leave a kernel. It marks the call as failed and returns: the method then ends with the error.
Tensor& my_add_out(KernelRuntimeContext& context, const Tensor& a, const Tensor& b, double alpha, double beta,
                   Tensor& out) {
  ET_KERNEL_CHECK_MSG(context, a.sizes().equals(b.sizes()), InvalidArgument, out,
                      "a and b must have the same shape, but a is %s and b is %s.", shape_text(a.sizes()).c_str(),
                      shape_text(b.sizes()).c_str());
  ET_KERNEL_CHECK_MSG(context, a.scalar_type() == b.scalar_type() && a.scalar_type() == out.scalar_type(),
                      InvalidArgument, out, "a, b and out must have the same dtype.");
  // The loop walks memory in order.
  ET_KERNEL_CHECK_MSG(context, executorch::runtime::tensors_have_same_dim_order(a, b, out), InvalidArgument, out,
                      "a, b and out must have the same order of dimensions in memory.");
  ET_KERNEL_CHECK_MSG(context, executorch::runtime::resize_tensor(out, a.sizes()) == Error::Ok, InvalidArgument, out,
                      "out has no memory for the shape %s.", shape_text(a.sizes()).c_str());
  switch (a.scalar_type()) {
    case ScalarType::Float:
      weighted_sum<float>(a, b, alpha, beta, out);
      break;
    case ScalarType::Double:
      weighted_sum<double>(a, b, alpha, beta, out);
      break;
    default:
      ET_KERNEL_CHECK_MSG(context, false, InvalidArgument, out, "a and b must be float32 or float64.");
  }
  return out;
}

}  // namespace
}  // namespace oplab

EXECUTORCH_LIBRARY(lab, "my_add.out", oplab::my_add_out);
