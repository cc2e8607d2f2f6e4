// MyAdd(a, b) = 3a + 2b with the lite API.
#include <onnxruntime_lite_custom_op.h>

#include <exception>
#include <memory>

using Ort::Custom::Tensor;

Ort::Status my_add(const Tensor<float>& a, const Tensor<float>& b, Tensor<float>& y) {
  if (a.Shape() != b.Shape()) {
    return Ort::Status("MyAdd: the shapes differ.", ORT_INVALID_ARGUMENT);
  }
  const float *pa = a.Data(), *pb = b.Data();
  float* py = y.Allocate(a.Shape());
  const int64_t size = a.NumberOfElement();
  for (int64_t i = 0; i < size; ++i) py[i] = 3 * pa[i] + 2 * pb[i];
  return Ort::Status{nullptr};
}

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);  // null if this runtime is older
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "ONNX Runtime is too old");
  Ort::InitApi(api);
  try {
    static const std::unique_ptr<OrtCustomOp> op{
        Ort::Custom::CreateLiteCustomOp("MyAdd", "CPUExecutionProvider", my_add)};
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
