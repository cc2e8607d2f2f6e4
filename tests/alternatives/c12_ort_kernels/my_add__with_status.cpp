// With status; the attributes are read by a call that throws, and is caught. ONNX Runtime's words tell why it failed.
#include <onnxruntime_cxx_api.h>

#include <cstring>

static std::string shown(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept try {
    Ort::KernelContext context{raw};
    const auto info = context.GetInput(0).GetTensorTypeAndShapeInfo();
    const auto shape = info.GetShape(), other = context.GetInput(1).GetTensorTypeAndShapeInfo().GetShape();
    if (shape != other) throw Ort::Exception("MyAdd(" + shown(shape) + ", " + shown(other) + ")", ORT_INVALID_ARGUMENT);
    const float* pa = context.GetInput(0).GetTensorData<float>();
    const float* pb = context.GetInput(1).GetTensorData<float>();
    float* py = context.GetOutput(0, shape).GetTensorMutableData<float>();
    for (size_t i = 0, n = info.GetElementCount(); i < n; ++i) py[i] = alpha * pa[i] + beta * pb[i];
    return nullptr;
  } catch (const Ort::Exception& error) {
    return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
  }
  float alpha, beta;
};

static float read(const OrtKernelInfo* info, const char* name, float otherwise) try {
  return Ort::ConstKernelInfo{info}.GetAttribute<float>(name);
} catch (const Ort::Exception& error) {
  if (std::strstr(error.what(), "No attribute with")) return otherwise;
  throw Ort::Exception(std::string(name) + ": " + error.what(), ORT_INVALID_ARGUMENT);
}

struct MyAdd : Ort::CustomOpBase<MyAdd, Kernel, true> {
  OrtStatus* CreateKernelV2(const OrtApi&, const OrtKernelInfo* info, void** made) const noexcept try {
    *made = new Kernel{read(info, "alpha", 3), read(info, "beta", 2)};
    return nullptr;
  } catch (const Ort::Exception& error) {
    return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
  }
  const char* GetName() const { return "MyAdd"; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};

extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  static MyAdd op;
  static Ort::CustomOpDomain domain{"c12"};
  static OrtStatus* failed = Ort::GetApi().CustomOpDomain_Add(domain, &op);
  return failed ? failed : Ort::GetApi().AddCustomOpDomain(options, domain);
}
