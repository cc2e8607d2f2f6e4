// oplab::MyAdd(a, b; alpha = 3.0, beta = 2.0) -> y = alpha*a + beta*b, for float and double and any shape.
#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

template <typename T>
struct MyAdd {
  MyAdd(const OrtApi*, const OrtKernelInfo* info)
      : alpha(float_attribute(info, "alpha", 3.0f)), beta(float_attribute(info, "beta", 2.0f)) {}

  Ort::Status Compute(const Ort::Custom::Tensor<T>& a, const Ort::Custom::Tensor<T>& b, Ort::Custom::Tensor<T>& y) {
    if (a.Shape() != b.Shape()) {
      return invalid("MyAdd: a and b must have the same shape, but a is " + shape_text(a.Shape()) + " and b is " +
                     shape_text(b.Shape()) + ".");
    }
    // Data() is a call into ONNX Runtime: inside the loop it would cost twenty times the addition.
    const T* pa = a.Data();
    const T* pb = b.Data();
    T* py = y.Allocate(a.Shape());
    const int64_t size = a.NumberOfElement();
    for (int64_t i = 0; i < size; ++i) py[i] = alpha * pa[i] + beta * pb[i];
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) { infer_same_shape(shapes); }

  const T alpha, beta;
};

}  // namespace

void add_my_add(Ort::CustomOpDomain& domain) {
  static const Op<MyAdd<float>> for_float{"MyAdd"};
  static const Op<MyAdd<double>> for_double{"MyAdd"};
  domain.Add(&for_float);
  domain.Add(&for_double);
}

}  // namespace oplab
