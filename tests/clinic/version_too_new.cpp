// An operator that was compiled with headers one version newer than the runtime's, as far as the runtime can see.
#include <onnxruntime_cxx_api.h>

#include <charconv>
#include <cstring>

namespace {

struct Kernel {
  void Compute(OrtKernelContext* raw) {
    const Ort::KernelContext context{raw};
    const Ort::ConstValue x = context.GetInput(0);
    const auto info = x.GetTensorTypeAndShapeInfo();
    float* y = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
    std::memcpy(y, x.GetTensorData<float>(), info.GetElementCount() * sizeof(float));
  }
};

struct Same : Ort::CustomOpBase<Same, Kernel> {
  explicit Same(uint32_t with) { version = with; }
  void* CreateKernel(const OrtApi&, const OrtKernelInfo*) const { return new Kernel; }
  const char* GetName() const { return "Same"; }
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
  const char* minor = base->GetVersionString() + 2;  // behind "1."
  uint32_t runtime = 0;
  std::from_chars(minor, minor + std::strlen(minor), runtime);
  static const Same newer{runtime + 1}, older{ORT_API_VERSION};
  static const Ort::CustomOpDomain domains[] = {Ort::CustomOpDomain{"newer"}, Ort::CustomOpDomain{"older"}};
  static const bool filled = [] {
    const_cast<Ort::CustomOpDomain&>(domains[0]).Add(&newer);
    const_cast<Ort::CustomOpDomain&>(domains[1]).Add(&older);
    return true;
  }();
  static_cast<void>(filled);
  for (const Ort::CustomOpDomain& domain : domains) {
    if (OrtStatus* failed = api->AddCustomOpDomain(options, domain)) return failed;
  }
  return nullptr;
}
