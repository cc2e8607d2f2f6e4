#include "onnxruntime_lite_custom_op.h"

Ort::Status twice(const Ort::Custom::Tensor<float>& x, Ort::Custom::Tensor<float>& y) {
  const float* in = x.Data();
  float* out = y.Allocate(x.Shape());
  const int64_t n = x.NumberOfElement();
  // ANSWER c01.NAME: return 2 * x
  for (int64_t i = 0; i < n; ++i) out[i] = 2 * in[i];
  // END
  return Ort::Status{nullptr};
}

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* api) {
  Ort::InitApi(api->GetApi(ORT_API_VERSION));
  static Ort::CustomOpDomain domain{"oplab"};
  static std::unique_ptr<Ort::Custom::OrtLiteCustomOp> op{Ort::Custom::CreateLiteCustomOp("Twice", "CPUExecutionProvider", twice)};
  static bool added = (domain.Add(op.get()), true);
  (void)added;
  Ort::UnownedSessionOptions{options}.Add(domain);
  return nullptr;
}
