// The lite API, as it is: its constructor throws, because it has no way to return a status.
#include <onnxruntime_lite_custom_op.h>

#include <cmath>
#include <sstream>

using Floats = Ort::Custom::Tensor<float>;

struct Foo {
  Foo(const OrtApi* api, const OrtKernelInfo* info) {
    check("attr1", api->KernelInfoGetAttribute_float(info, "attr1", &attr1));
    check("attr2", api->KernelInfoGetAttribute_int64(info, "attr2", &attr2));
  }
  static void check(const char* name, OrtStatus* raw) {
    const Ort::Status status{raw};
    if (!status.IsOK()) ORT_CXX_API_THROW("Foo: " + std::string(name) + ": " + status.GetErrorMessage(), ORT_INVALID_ARGUMENT);
  }
  static std::string shown(const Floats& x) {
    std::ostringstream text;
    for (int64_t size : x.Shape()) text << (text.tellp() > 0 ? ", " : "[") << size;
    return text.tellp() > 0 ? text.str() + "]" : "a scalar";
  }
  Ort::Status Compute(const Floats& x1, const Floats& x2, Floats& y) {
    if (x1.Shape() != x2.Shape()) {
      return Ort::Status(("Foo: input1 is " + shown(x1) + ", input2 is " + shown(x2)).c_str(), ORT_INVALID_ARGUMENT);
    }
    const float *p1 = x1.Data(), *p2 = x2.Data();
    float* out = y.Allocate(x1.Shape());
    const int64_t size = x1.NumberOfElement();
    for (int64_t i = 0; i < size; ++i) out[i] = attr1 * p1[i] + powf(p2[i], static_cast<float>(attr2));
    return Ort::Status{nullptr};
  }
  float attr1 = 0;
  int64_t attr2 = 0;
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* raw, const OrtApiBase* base) {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  static const std::unique_ptr<Ort::Custom::OrtLiteCustomOp> op{
      Ort::Custom::CreateLiteCustomOp<Foo>("Foo", "CPUExecutionProvider", 2)};
  static Ort::CustomOpDomain domain{"c12"};
  static const bool added = (domain.Add(op.get()), true);
  (void)added;
  Ort::UnownedSessionOptions{raw}.Add(domain);
  return nullptr;
}
