// oplab::Foo(input1, input2; attr1, attr2) -> y = attr1*input1 + input2**attr2, for float and double and any shape. Both
// attributes are required. It exists from version 2 of the domain.
#include "../common/power.h"
#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

template <typename T>
struct Foo {
  Foo(const OrtApi*, const OrtKernelInfo* info)
      : attr1(float_attribute(info, "attr1")), attr2(int_attribute(info, "attr2")) {
    if (attr2 < -kLargestExponent || attr2 > kLargestExponent) {
      refuse("the attribute attr2 must be between -2**53 and 2**53, but it is ", attr2, ".");
    }
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& input1, const Tensor<T>& input2, Tensor<T>& y) {
    if (input1.Shape() != input2.Shape()) {
      return invalid("Foo: input1 and input2 must have the same shape, but input1 is " + shape_text(input1.Shape()) +
                     " and input2 is " + shape_text(input2.Shape()) + ".");
    }
    const T* p1 = input1.Data();
    const T* p2 = input2.Data();
    T* py = y.Allocate(input1.Shape());
    const int64_t piece = std::abs(attr2) <= kMultiplied ? 16384 : 2048;  // a call of pow costs as much as many products
    parallel_for(context, input1.NumberOfElement(), piece, [&](int64_t begin, int64_t end) {
      scaled_plus_power(p1, p2, attr1, attr2, begin, end, py);
    });
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) { infer_same_shape(shapes); }

  const T attr1;
  const int64_t attr2;
};

}  // namespace

void add_foo(Ort::CustomOpDomain& domain) { add_for<Foo, float, double>(domain, "Foo", 2); }

}  // namespace oplab
