// Chapter 13: Pick(x, at, scale?) -> y, outside, step by step. Each step is an operator.
#include "13_kernel.h"

namespace {

struct Scale1 {  // for the steps without the input scale
  static float of(const Ort::KernelContext&) { return 1; }
};

struct ScaleUnchecked {
  static float of(const Ort::KernelContext& context) {
    return *context.GetInput(2).GetTensorData<float>();
  }
};

struct ScaleChecked {
  static float of(const Ort::KernelContext& context) {
    if (context.GetInputCount() <= 2 || context.GetInput(2) == nullptr) return 1;
    if (context.GetInput(2).GetTensorTypeAndShapeInfo().GetElementCount() != 1) {
      throw Ort::Exception("Pick: scale must have one value.", ORT_INVALID_ARGUMENT);
    }
    return *context.GetInput(2).GetTensorData<float>();
  }
};

template <typename Scale>
struct PickKernel {
  static void compute(const Ort::KernelContext& context) {
    const Ort::ConstValue x = context.GetInput(0), at = context.GetInput(1);
    const int64_t size = x.GetTensorTypeAndShapeInfo().GetElementCount();
    const auto info = at.GetTensorTypeAndShapeInfo();
    const float* from = x.GetTensorData<float>();
    const int64_t* places = at.GetTensorData<int64_t>();
    float* y = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
    const float scale = Scale::of(context);
    const size_t length = info.GetElementCount();
    int32_t count = 0;
    for (size_t i = 0; i < length; ++i) {
      const bool inside = places[i] >= 0 && places[i] < size;
      y[i] = inside ? scale * from[places[i]] : 0;
      count += !inside;
    }
    Ort::UnownedValue outside = context.GetOutput(1, {1});
    if (outside != nullptr) *outside.GetTensorMutableData<int32_t>() = count;
  }
};

struct OneType : Base<OneType, PickKernel<Scale1>> {
  const char* GetName() const { return "OneType"; }
  size_t GetInputTypeCount() const { return 2; }
  size_t GetOutputTypeCount() const { return 2; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t) const { return FLOAT; }
};

struct ByIndex : Base<ByIndex, PickKernel<Scale1>> {
  const char* GetName() const { return "ByIndex"; }
  size_t GetInputTypeCount() const { return 2; }
  size_t GetOutputTypeCount() const { return 2; }
  Type GetInputType(size_t index) const { return index == 1 ? INT64 : FLOAT; }
  Type GetOutputType(size_t index) const { return index == 1 ? INT32 : FLOAT; }
};

template <typename Op, typename Scale>
struct ThreeInputs : Base<Op, PickKernel<Scale>> {
  size_t GetInputTypeCount() const { return 3; }
  size_t GetOutputTypeCount() const { return 2; }
  Type GetInputType(size_t index) const { return index == 1 ? INT64 : FLOAT; }
  Type GetOutputType(size_t index) const { return index == 1 ? INT32 : FLOAT; }
};

struct AllRequired : ThreeInputs<AllRequired, ScaleUnchecked> {
  const char* GetName() const { return "AllRequired"; }
};

template <typename Op, typename Scale>
struct OptionalScale : ThreeInputs<Op, Scale> {
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(size_t index) const {
    return index == 2 ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
  }
};

struct Unchecked : OptionalScale<Unchecked, ScaleUnchecked> {
  const char* GetName() const { return "Unchecked"; }
};

struct Checked : OptionalScale<Checked, ScaleChecked> {
  const char* GetName() const { return "Checked"; }
};

struct OneOutput : OptionalScale<OneOutput, ScaleChecked> {
  const char* GetName() const { return "OneOutput"; }
  OrtCustomOpInputOutputCharacteristic GetOutputCharacteristic(size_t index) const {
    return index == 1 ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return add_to_lesson<OneType, ByIndex, AllRequired, Unchecked, Checked, OneOutput>(options,
                                                                                     base);
}
