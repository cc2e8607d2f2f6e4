// MyAdd(a, b) = 3a + 2b as a library for ONNX Runtime: the kernel, the op and the entry point.
#include <onnxruntime_cxx_api.h>

#include <exception>
#include <new>
#include <vector>

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    try {
      const Ort::KernelContext context{raw};  // this run: its inputs and outputs
      const Ort::ConstValue a = context.GetInput(0), b = context.GetInput(1);
      const std::vector<int64_t> shape = a.GetTensorTypeAndShapeInfo().GetShape();
      const std::vector<int64_t> other = b.GetTensorTypeAndShapeInfo().GetShape();
      if (shape != other) {
        return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, "MyAdd: the shapes differ.");
      }
      Ort::UnownedValue y = context.GetOutput(0, shape);  // allocates it

      const float* pa = a.GetTensorData<float>();  // calls into ONNX Runtime: before the loop
      const float* pb = b.GetTensorData<float>();
      float* py = y.GetTensorMutableData<float>();
      const size_t size = a.GetTensorTypeAndShapeInfo().GetElementCount();
      for (size_t i = 0; i < size; ++i) py[i] = 3 * pa[i] + 2 * pb[i];
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    }
  }
};

struct MyAdd : Ort::CustomOpBase<MyAdd, Kernel, true> {
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo*,
                            void** made) const noexcept {
    *made = new (std::nothrow) Kernel;
    return *made ? nullptr : api.CreateStatus(ORT_FAIL, "no memory for a kernel");
  }
  const char* GetName() const { return "MyAdd"; }
  size_t GetInputTypeCount() const { return 2; }
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
    static const MyAdd op;
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
