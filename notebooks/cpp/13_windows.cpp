// Windows(x; size, step = 1, reversed = 0) -> y, whose shape follows from attributes.
#include "oplab_kernel.h"

namespace {

using oplab::Tensor;

struct Windows {
  Windows(const OrtApi*, const OrtKernelInfo* info)
      : size(oplab::int_attribute(info, "size")),
        step(oplab::int_attribute(info, "step", 1)),
        reversed(bool_attribute(info, "reversed", false)) {
    if (size < 1 || step < 1) oplab::refuse("size and step must be at least 1.");
  }

  // ONNX has no attributes of type bool: exporters write an int that is 0 or 1.
  static bool bool_attribute(const OrtKernelInfo* info, const char* name, bool default_value) {
    const int64_t value = oplab::int_attribute(info, name, default_value);
    if (value != 0 && value != 1) oplab::refuse(name, " must be 0 or 1, not ", value, ".");
    return value == 1;
  }

  Ort::Status Compute(const Tensor<float>& x, Tensor<float>& y) {
    if (x.Shape().size() != 1) oplab::refuse("x must have one dimension.");
    const int64_t n = x.NumberOfElement(), count = n < size ? 0 : (n - size) / step + 1;
    const float* from = x.Data();
    float* to = y.Allocate({count, size});
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t k = 0; k < size; ++k) {
        to[i * size + k] = from[i * step + (reversed ? size - 1 - k : k)];
      }
    }
    return Ort::Status{nullptr};
  }

  static void InferShapes(oplab::Shapes& shapes) {
    const int64_t size = shapes.int_attribute("size").value_or(-1);
    shapes.set(0, shapes.type(0), {oplab::Shapes::Dim{}, {size, ""}});
  }

  const int64_t size, step;
  const bool reversed;
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Windows>(made, "Windows");
    return made;
  });
}
