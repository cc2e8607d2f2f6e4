// Chapter 13: what a kernel and an operator can ask and declare about their inputs.
#include "13_kernel.h"

namespace {

template <typename T>
struct CopyKernel {
  static void compute(const Ort::KernelContext& context) {
    const Ort::ConstValue x = context.GetInput(0);
    const auto info = x.GetTensorTypeAndShapeInfo();
    T* y = context.GetOutput(0, info.GetShape()).template GetTensorMutableData<T>();
    std::copy_n(x.GetTensorData<T>(), info.GetElementCount(), y);
  }
};

template <typename T>
struct CopyOp : Base<CopyOp<T>, CopyKernel<T>> {
  const char* GetName() const { return "Copy"; }
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 1; }
  Type GetInputType(size_t) const { return Ort::TypeToTensorType<T>::type; }
  Type GetOutputType(size_t) const { return Ort::TypeToTensorType<T>::type; }
};

struct AskKernel {
  static void compute(const Ort::KernelContext& context) {
    int64_t* seen = context.GetOutput(0, {3}).GetTensorMutableData<int64_t>();
    seen[0] = context.GetInputCount();
    for (size_t index : {2, 3}) seen[index - 1] = context.GetInput(index) != nullptr;
  }
};

struct AskOp : Base<AskOp, AskKernel> {
  const char* GetName() const { return "Ask"; }
  size_t GetInputTypeCount() const { return 4; }
  size_t GetOutputTypeCount() const { return 1; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t) const { return INT64; }
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(size_t index) const {
    return index < 2 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
  }
};

struct CountKernel {
  static void compute(const Ort::KernelContext& context) {
    float* count = context.GetOutput(0, {1}).GetTensorMutableData<float>();
    *count = static_cast<float>(context.GetInputCount());
  }
};

struct CountOp : Base<CountOp, CountKernel> {
  const char* GetName() const { return "Count"; }
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 1; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t) const { return FLOAT; }
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(size_t) const {
    return INPUT_OUTPUT_VARIADIC;
  }
  int GetVariadicInputMinArity() const { return 2; }
  bool GetVariadicInputHomogeneity() const { return true; }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return add_to_lesson<CopyOp<float>, CopyOp<double>, AskOp, CountOp>(options, base);
}
