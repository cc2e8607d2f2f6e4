// says: it has no operator MyAdd in the domain c12
#include <onnxruntime_lite_custom_op.h>  // the lite API, and with it onnxruntime_cxx_api.h

namespace {

float attribute(const OrtKernelInfo* info, const char* name, float otherwise) {
  float value = otherwise;
  const Ort::Status missing{Ort::GetApi().KernelInfoGetAttribute_float(info, name, &value)};
  return missing.IsOK() ? value : otherwise;
}

struct Kernel {
  explicit Kernel(const OrtKernelInfo* info)
      : alpha(attribute(info, "alpha", 3.0f)), beta(attribute(info, "beta", 2.0f)) {}

  void Compute(OrtKernelContext* raw) {
    const Ort::KernelContext context{raw};
    const Ort::ConstValue a = context.GetInput(0), b = context.GetInput(1);
    const Ort::TensorTypeAndShapeInfo info = a.GetTensorTypeAndShapeInfo();
    Ort::UnownedValue y = context.GetOutput(0, info.GetShape());
    const float *pa = a.GetTensorData<float>(), *pb = b.GetTensorData<float>();
    float* py = y.GetTensorMutableData<float>();
    const size_t size = info.GetElementCount();
    for (size_t i = 0; i < size; ++i) py[i] = alpha * pa[i] + beta * pb[i];
  }

  const float alpha, beta;
};

struct MyAdd : Ort::CustomOpBase<MyAdd, Kernel> {
  void* CreateKernel(const OrtApi&, const OrtKernelInfo* info) const { return new Kernel(info); }
  const char* GetName() const { return "MyAdd"; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "this ONNX Runtime is older than the library's headers");
  Ort::InitApi(api);
  try {
    static const MyAdd op;
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"custom"};
      made.Add(&op);
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  }
}
