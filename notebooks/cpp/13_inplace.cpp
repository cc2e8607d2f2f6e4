// Chapter 13: y[i] = x[i] + x[i - 1], and whether y has the memory of x, with four promises.
#include "13_kernel.h"

namespace {

// Reads x[i - 1] after it has written y[i - 1]: right only where y has memory apart from x.
struct Forwards {
  static void add(const float* x, float* y, int64_t size) {
    for (int64_t i = 0; i < size; ++i) y[i] = x[i] + (i > 0 ? x[i - 1] : 0);
  }
};

// From the end: each x[i] is read for the last time before y[i] is written.
struct Backwards {
  static void add(const float* x, float* y, int64_t size) {
    for (int64_t i = size - 1; i >= 0; --i) y[i] = x[i] + (i > 0 ? x[i - 1] : 0);
  }
};

template <typename Order>
struct PairsKernel {
  static void compute(const Ort::KernelContext& context) {
    const Ort::ConstValue in = context.GetInput(0);
    const auto info = in.GetTensorTypeAndShapeInfo();
    const float* x = in.GetTensorData<float>();
    float* y = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
    *context.GetOutput(1, {1}).GetTensorMutableData<bool>() = x == y;
    Order::add(x, y, info.GetElementCount());
  }
};

template <typename Op, typename Order>
struct Pairs : Base<Op, PairsKernel<Order>> {
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 2; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t i) const { return i ? ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL : FLOAT; }
};

// Output 0 with input 0, as two arrays of one int each.
size_t pair(int** input, int** output) {
  *input = new int[1]{0};
  *output = new int[1]{0};
  return 1;
}
void release(int* input, int* output) {
  delete[] input;
  delete[] output;
}

struct Plain : Pairs<Plain, Forwards> {
  const char* GetName() const { return "Plain"; }
};

struct MayWrong : Pairs<MayWrong, Forwards> {
  MayWrong() { this->GetMayInplace = pair, this->ReleaseMayInplace = release; }
  const char* GetName() const { return "MayWrong"; }
};

struct MayRight : Pairs<MayRight, Backwards> {
  MayRight() { this->GetMayInplace = pair, this->ReleaseMayInplace = release; }
  const char* GetName() const { return "MayRight"; }
};

struct Alias : Pairs<Alias, Backwards> {
  Alias() { this->GetAliasMap = pair, this->ReleaseAliasMap = release; }
  const char* GetName() const { return "Alias"; }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return add_to_lesson<Plain, MayWrong, MayRight, Alias>(options, base);
}
