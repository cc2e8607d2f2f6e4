// c12.errors: AddBias(x [rows, columns], bias [columns]; scale = 1.0)
// -> y [rows, columns] = x + scale*bias
//
// Reject everything else with a status with the code
// ORT_INVALID_ARGUMENT. Its message begins with "AddBias: " and names
// - x or bias, with its whole shape such as [2, 3, 4], if its rank is
//   not 2 (x) or not 1 (bias);
// - both shapes, if the lengths do not match;
// - scale, when the session is created: if it is not a float attribute,
//   or if it is not a finite number above 0. In the second case the
//   message contains the value.
// The code of a status from Create does not reach the caller: ONNX
// Runtime reports RUNTIME_EXCEPTION instead. An exception must not
// leave Create or ComputeV2, which are called through a C interface.
//
// ONNX Runtime creates many kernels of one operator, and calls each of
// them from several threads at once: store the attributes in the
// kernel, and nothing that a run computes. Free what you allocate, and
// only read the inputs.
#include <onnxruntime_cxx_api.h>

#include <cmath>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept;  // a null pointer means success
  float scale = 1.0f;
};

OrtStatus* Create(const OrtKernelInfo* info, Kernel& kernel) noexcept;  // sets kernel.scale

// TODO c12.errors: write Create and ComputeV2, with a status for each wrong model and input
#error "c12.errors is not written yet"

struct AddBias : Ort::CustomOpBase<AddBias, Kernel, true> {  // true: with a status
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo* info,
                            void** made) const noexcept {
    std::unique_ptr<Kernel> kernel{new (std::nothrow) Kernel};
    if (!kernel) return api.CreateStatus(ORT_FAIL, "AddBias: no memory for a kernel");
    if (OrtStatus* failed = Create(info, *kernel)) return failed;
    *made = kernel.release();
    return nullptr;
  }
  const char* GetName() const { return "AddBias"; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "ONNX Runtime is too old");
  Ort::InitApi(api);
  try {
    static const AddBias op;
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"c12"};
      made.Add(&op);
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "an unknown C++ exception at the registration");
  }
}
