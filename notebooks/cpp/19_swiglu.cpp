// SwiGLU(a, b; alpha = 1) = a * sigmoid(alpha * a) * b, as in opset 28, in the domain `lesson`.
#include "oplab_kernel.h"

#include <cmath>
#include <exception>
#include <memory>

using Ort::Custom::Tensor;

struct SwiGLU {
  SwiGLU(const OrtApi*, const OrtKernelInfo* info) {
    alpha = oplab::float_attribute(info, "alpha", 1.0f);  // the default is in ONNX's schema
  }

  Ort::Status Compute(const Tensor<float>& a, const Tensor<float>& b, Tensor<float>& y) {
    if (a.Shape() != b.Shape()) {  // the schema has no broadcasting
      return Ort::Status("SwiGLU: the shapes of A and B differ.", ORT_INVALID_ARGUMENT);
    }
    const float *pa = a.Data(), *pb = b.Data();
    float* py = y.Allocate(a.Shape());
    const int64_t size = a.NumberOfElement();
    for (int64_t i = 0; i < size; ++i) py[i] = pa[i] / (1 + std::exp(-alpha * pa[i])) * pb[i];
    return Ort::Status{nullptr};
  }

  float alpha = 1;
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);  // null if this runtime is older
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "ONNX Runtime is too old");
  Ort::InitApi(api);
  try {
    static const std::unique_ptr<OrtCustomOp> op{
        Ort::Custom::CreateLiteCustomOp<SwiGLU>("SwiGLU", "CPUExecutionProvider")};
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"lesson"};
      made.Add(op.get());
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "an unknown C++ exception in RegisterCustomOps");
  }
}
