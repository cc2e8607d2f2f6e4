// One name, two operators: one for CUDA, one for the CPU. Each multiplies by a number that tells them apart.
#include <onnxruntime_cxx_api.h>

namespace {

struct Kernel {
  float factor;
  void Compute(OrtKernelContext* raw) {
    const Ort::KernelContext context{raw};
    const Ort::ConstValue x = context.GetInput(0);
    const auto info = x.GetTensorTypeAndShapeInfo();
    float* y = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
    for (size_t i = 0; i < info.GetElementCount(); ++i) y[i] = factor * x.GetTensorData<float>()[i];
  }
};

struct Scale : Ort::CustomOpBase<Scale, Kernel> {
  Scale(const char* provider, float factor) : provider(provider), factor(factor) {}
  const char* provider;
  float factor;
  void* CreateKernel(const OrtApi&, const OrtKernelInfo*) const { return new Kernel{factor}; }
  const char* GetName() const { return "Scale"; }
  const char* GetExecutionProviderType() const { return provider; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "this ONNX Runtime is too old");
  Ort::InitApi(api);
  static const Scale cuda{"CUDAExecutionProvider", 3}, cpu{"CPUExecutionProvider", 2};
  static const Ort::CustomOpDomain both = [] {
    Ort::CustomOpDomain made{"both"};
    made.Add(&cuda);
    made.Add(&cpu);
    return made;
  }();
  static const Ort::CustomOpDomain one = [] {
    Ort::CustomOpDomain made{"one"};
    made.Add(&cuda);
    return made;
  }();
  if (OrtStatus* failed = api->AddCustomOpDomain(options, both)) return failed;
  return api->AddCustomOpDomain(options, one);
}
