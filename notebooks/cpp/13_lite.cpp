// Chapter 13: two optional inputs in the lite API, which crashes where an input is named "".
#include <onnxruntime_lite_custom_op.h>

#include <optional>

#include "13_kernel.h"

namespace {

using Ort::Custom::Tensor;

struct LiteKernel {
  LiteKernel(const OrtApi*, const OrtKernelInfo*) {}
  void Compute(const Tensor<float>& a, std::optional<const Tensor<float>*> b,
               std::optional<const Tensor<float>*> c, Tensor<int64_t>& given) {
    int64_t* out = given.Allocate({2});
    out[0] = b.has_value();
    out[1] = c.has_value();
  }
};

struct LiteOp : Ort::Custom::OrtLiteCustomStruct<LiteKernel> {
  LiteOp() : OrtLiteCustomStruct("Lite", "CPUExecutionProvider") {}
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return add_to_lesson<LiteOp>(options, base);
}
