// The sum of a float16 tensor's numbers, twice: with the lite API's variadic input, and with a plain custom operator.
#include <onnxruntime_lite_custom_op.h>

#include <memory>

namespace {

constexpr auto kHalf = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
constexpr auto kFloat = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;

// Counts its inputs' elements; the lite API makes an object of each input before it calls this.
Ort::Status count(const Ort::Custom::Variadic& xs, Ort::Custom::Tensor<float>& y) {
  float total = 0;
  for (size_t i = 0; i < xs.Size(); ++i) total += static_cast<float>(xs[i]->NumberOfElement());
  *y.Allocate({1}) = total;
  return Ort::Status{nullptr};
}

struct SumKernel {
  void Compute(OrtKernelContext* raw) {
    const Ort::KernelContext context{raw};
    const Ort::ConstValue x = context.GetInput(0);
    const auto* halves = x.GetTensorData<Ort::Float16_t>();
    float total = 0;  // a sum in float16 would lose each number below half of the sum's last digit
    for (size_t i = 0; i < x.GetTensorTypeAndShapeInfo().GetElementCount(); ++i) total += halves[i].ToFloat();
    *context.GetOutput(0, {1}).GetTensorMutableData<float>() = total;
  }
};

struct Sum : Ort::CustomOpBase<Sum, SumKernel> {
  void* CreateKernel(const OrtApi&, const OrtKernelInfo*) const { return new SumKernel; }
  const char* GetName() const { return "Sum"; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const { return kHalf; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return kFloat; }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "this ONNX Runtime is too old");
  Ort::InitApi(api);
  static const std::unique_ptr<OrtCustomOp> lite{
      Ort::Custom::CreateLiteCustomOp("Count", "CPUExecutionProvider", count)};
  static const Sum plain;
  static const Ort::CustomOpDomain domain = [] {
    Ort::CustomOpDomain made{"clinic"};
    made.Add(lite.get());
    made.Add(&plain);
    return made;
  }();
  return api->AddCustomOpDomain(options, domain);
}
