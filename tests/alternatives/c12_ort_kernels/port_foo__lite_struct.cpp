#include <onnxruntime_lite_custom_op.h>

#include <cmath>

struct Foo {
  Foo(const OrtApi* api, const OrtKernelInfo* info) {
    Ort::ThrowOnError(api->KernelInfoGetAttribute_float(info, "attr1", &attr1));
    Ort::ThrowOnError(api->KernelInfoGetAttribute_int64(info, "attr2", &attr2));
  }
  void Compute(const Ort::Custom::Tensor<float>& x1, const Ort::Custom::Tensor<float>& x2, Ort::Custom::Tensor<float>& y) {
    const float *p1 = x1.Data(), *p2 = x2.Data();
    float* out = y.Allocate(x1.Shape());
    const int64_t size = x1.NumberOfElement();
    for (int64_t i = 0; i < size; ++i) out[i] = attr1 * p1[i] + powf(p2[i], static_cast<float>(attr2));
  }
  float attr1;
  int64_t attr2;
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
