#include <onnxruntime_lite_custom_op.h>

struct MyAdd {
  MyAdd(const OrtApi* api, const OrtKernelInfo* info) {
    float value;
    if (Ort::Status{api->KernelInfoGetAttribute_float(info, "alpha", &value)}.IsOK()) alpha = value;
    if (Ort::Status{api->KernelInfoGetAttribute_float(info, "beta", &value)}.IsOK()) beta = value;
  }
  Ort::Status Compute(const Ort::Custom::Tensor<float>& a, const Ort::Custom::Tensor<float>& b,
                      Ort::Custom::Tensor<float>& y) {
    const float *pa = a.Data(), *pb = b.Data();
    float* py = y.Allocate(a.Shape());
    const int64_t size = a.NumberOfElement();
    for (int64_t i = 0; i < size; ++i) py[i] = alpha * pa[i] + beta * pb[i];
    return Ort::Status{nullptr};
  }
  float alpha = 3, beta = 2;
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* raw, const OrtApiBase* base) {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  static const std::unique_ptr<Ort::Custom::OrtLiteCustomOp> op{
      Ort::Custom::CreateLiteCustomOp<MyAdd>("MyAdd", "CPUExecutionProvider")};
  static Ort::CustomOpDomain domain{"c12"};
  static const bool added = (domain.Add(op.get()), true);
  (void)added;
  Ort::UnownedSessionOptions{raw}.Add(domain);
  return nullptr;
}
