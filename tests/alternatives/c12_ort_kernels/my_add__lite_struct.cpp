// The lite API. Its CreateKernel can only throw; the CreateKernelV2 that is set here makes a status of that.
#include <onnxruntime_lite_custom_op.h>

#include <sstream>

using Floats = Ort::Custom::Tensor<float>;

// As a list of floats, ONNX Runtime reads every attribute that is there.
static float read(const OrtApi* api, const OrtKernelInfo* info, const char* name, float otherwise) {
  float value;
  size_t size = 0;
  if (Ort::Status{api->KernelInfoGetAttribute_float(info, name, &value)}.IsOK()) return value;
  if (!Ort::Status{api->KernelInfoGetAttributeArray_float(info, name, nullptr, &size)}.IsOK()) return otherwise;
  throw std::invalid_argument(std::string(name) + " is not a float");
}

static std::ostream& operator<<(std::ostream& out, const std::vector<int64_t>& shape) {
  out << '[';
  for (size_t i = 0; i < shape.size(); ++i) out << (i ? "," : "") << shape[i];
  return out << ']';
}

struct MyAdd {
  MyAdd(const OrtApi* api, const OrtKernelInfo* info) : alpha(read(api, info, "alpha", 3)), beta(read(api, info, "beta", 2)) {}
  Ort::Status Compute(const Floats& a, const Floats& b, Floats& y) noexcept try {
    if (a.Shape() != b.Shape()) {
      std::ostringstream text;
      text << "shapes differ: " << a.Shape() << " vs. " << b.Shape();
      return Ort::Status(text.str().c_str(), ORT_INVALID_ARGUMENT);
    }
    const float *pa = a.Data(), *pb = b.Data();
    float* py = y.Allocate(a.Shape());
    const int64_t size = a.NumberOfElement();
    for (int64_t i = 0; i < size; ++i) py[i] = alpha * pa[i] + beta * pb[i];
    return Ort::Status{nullptr};
  } catch (const std::exception& error) {
    return Ort::Status(error.what(), ORT_FAIL);
  }
  const float alpha, beta;
};

static OrtStatus* create(const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** made) noexcept try {
  *made = op->CreateKernel(op, api, info);
  return nullptr;
} catch (const std::exception& error) {
  return api->CreateStatus(ORT_INVALID_ARGUMENT, error.what());
}

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* raw, const OrtApiBase* base) {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  static const std::unique_ptr<Ort::Custom::OrtLiteCustomOp> op{
      Ort::Custom::CreateLiteCustomOp<MyAdd>("MyAdd", "CPUExecutionProvider")};
  op->CreateKernelV2 = create;
  static Ort::CustomOpDomain domain{"c12"};
  static const bool added = (domain.Add(op.get()), true);
  (void)added;
  Ort::UnownedSessionOptions{raw}.Add(domain);
  return nullptr;
}
