// What every kernel of this library shares: attributes with defaults, shapes as text, and an Op that lets no exception
// cross the C boundary.
#pragma once

#include <onnxruntime_lite_custom_op.h>

#include <string>
#include <vector>

namespace oplab {

inline Ort::Status invalid(const std::string& sentence) { return Ort::Status(sentence.c_str(), ORT_INVALID_ARGUMENT); }

inline std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (int64_t size : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

// A float attribute of the node; `otherwise` where the model does not set it. Throws where it has another type: ONNX
// Runtime answers "missing" and "wrong type" with the same code, and a silent default would hide the second.
inline float float_attribute(const OrtKernelInfo* info, const char* name, float otherwise) {
  const OrtApi& api = Ort::GetApi();
  float value = otherwise;
  Ort::Status failed{api.KernelInfoGetAttribute_float(info, name, &value)};
  if (failed.IsOK()) return value;

  int64_t as_int;
  size_t size = 0;
  const bool exists = Ort::Status{api.KernelInfoGetAttribute_int64(info, name, &as_int)}.IsOK() ||
                      Ort::Status{api.KernelInfoGetAttribute_string(info, name, nullptr, &size)}.IsOK() ||
                      Ort::Status{api.KernelInfoGetAttributeArray_float(info, name, nullptr, &size)}.IsOK() ||
                      Ort::Status{api.KernelInfoGetAttributeArray_int64(info, name, nullptr, &size)}.IsOK();
  if (exists) {
    ORT_CXX_API_THROW("the attribute " + std::string(name) + " must be a float: " + failed.GetErrorMessage(),
                      ORT_INVALID_ARGUMENT);
  }
  return otherwise;
}

// A lite custom op whose inputs are all required and whose kernel reports every failure as a status.
//
// The lite API marks each input optional and lets exceptions of the constructor and of the argument conversion pass
// through C function pointers. Both are mended here, once for all kernels.
template <typename Kernel>
class Op : public Ort::Custom::OrtLiteCustomStruct<Kernel> {
  using Lite = Ort::Custom::OrtLiteCustomStruct<Kernel>;

 public:
  explicit Op(const char* name) : Lite(name, "CPUExecutionProvider") {
    this->GetInputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };
    this->GetOutputCharacteristic = [](const OrtCustomOp*, size_t) { return INPUT_OUTPUT_REQUIRED; };

    this->CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                              void** kernel) noexcept -> OrtStatusPtr {
      return guarded(op->GetName(op), [&]() -> OrtStatusPtr {
        *kernel = op->CreateKernel(op, api, info);
        return nullptr;
      });
    };

    static const auto lite_compute = this->KernelComputeV2;
    static const std::string op_name = name;
    this->KernelComputeV2 = [](void* kernel, OrtKernelContext* context) noexcept -> OrtStatusPtr {
      return guarded(op_name.c_str(), [&] { return lite_compute(kernel, context); });
    };
  }

 private:
  template <typename Call>
  static OrtStatusPtr guarded(const char* name, Call call) noexcept {
    try {
      return call();
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, (std::string(name) + ": " + error.what()).c_str());
    } catch (...) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, "an unknown C++ exception in a kernel of oplab");
    }
  }
};

}  // namespace oplab
