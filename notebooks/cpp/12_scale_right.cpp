// Scale(x; factor = 1.0) = factor * x: a default, for a missing attribute only.
#include "oplab_kernel.h"  // has_attribute tries each type

#include <exception>
#include <memory>
#include <new>
#include <vector>

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    try {
      const Ort::KernelContext context{raw};
      const Ort::ConstValue x = context.GetInput(0);
      const std::vector<int64_t> shape = x.GetTensorTypeAndShapeInfo().GetShape();
      const float* px = x.GetTensorData<float>();
      float* py = context.GetOutput(0, shape).GetTensorMutableData<float>();
      const size_t size = x.GetTensorTypeAndShapeInfo().GetElementCount();
      for (size_t i = 0; i < size; ++i) py[i] = factor * px[i];
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    }
  }
  float factor = 1;
};

struct Scale : Ort::CustomOpBase<Scale, Kernel, true> {
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo* info,
                            void** made) const noexcept {
    std::unique_ptr<Kernel> kernel{new (std::nothrow) Kernel};
    if (!kernel) return api.CreateStatus(ORT_FAIL, "no memory for a kernel");
    const Ort::Status missing{
        api.KernelInfoGetAttribute_float(info, "factor", &kernel->factor)};
    if (!missing.IsOK()) {
      if (oplab::detail::has_attribute(info, "factor")) {
        return api.CreateStatus(ORT_INVALID_ARGUMENT, "Scale: factor must be a float.");
      }
      kernel->factor = 1;
    }
    *made = kernel.release();
    return nullptr;
  }
  const char* GetName() const { return "Scale"; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);  // null if this runtime is older
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "ONNX Runtime is too old");
  Ort::InitApi(api);
  try {
    static const Scale op;
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"lesson"};
      made.Add(&op);
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "an unknown C++ exception in RegisterCustomOps");
  }
}
