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

// ANSWER c12.errors: write Create and ComputeV2, with a status for each wrong model and input
template <typename... Words>
OrtStatus* invalid(const Words&... words) {
  std::ostringstream text;
  text << "AddBias: ";
  (text << ... << words);
  return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, text.str().c_str());
}

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

OrtStatus* Create(const OrtKernelInfo* info, Kernel& kernel) noexcept {
  const OrtApi& api = Ort::GetApi();
  try {
    const Ort::Status failed{api.KernelInfoGetAttribute_float(info, "scale", &kernel.scale)};
    if (!failed.IsOK()) {
      // ONNX Runtime says "missing" and "of another type" with one code. Asking for the other
      // types tells the two apart.
      int64_t whole;
      size_t size = 0;
      if (Ort::Status{api.KernelInfoGetAttribute_int64(info, "scale", &whole)}.IsOK() ||
          Ort::Status{api.KernelInfoGetAttribute_string(info, "scale", nullptr, &size)}
              .IsOK() ||
          Ort::Status{api.KernelInfoGetAttributeArray_float(info, "scale", nullptr, &size)}
              .IsOK() ||
          Ort::Status{api.KernelInfoGetAttributeArray_int64(info, "scale", nullptr, &size)}
              .IsOK()) {
        return invalid("the attribute scale must be a float.");
      }
      kernel.scale = 1.0f;
    }
    if (!std::isfinite(kernel.scale) || kernel.scale <= 0) {
      return invalid("the attribute scale must be finite and above 0, "
                     "but it is ", kernel.scale, ".");
    }
    return nullptr;
  } catch (...) {
    return api.CreateStatus(ORT_FAIL, "AddBias: no memory for a sentence");
  }
}

OrtStatus* Kernel::ComputeV2(OrtKernelContext* raw) noexcept {
  try {
    const Ort::KernelContext context{raw};
    const Ort::ConstValue x = context.GetInput(0), bias = context.GetInput(1);
    const std::vector<int64_t> shape = x.GetTensorTypeAndShapeInfo().GetShape();
    const std::vector<int64_t> length = bias.GetTensorTypeAndShapeInfo().GetShape();
    if (shape.size() != 2) {
      return invalid("x must have the rank 2, but its shape is ", text_of(shape), ".");
    }
    if (length.size() != 1) {
      return invalid("bias must have the rank 1, but its shape is ", text_of(length), ".");
    }
    if (shape[1] != length[0]) {
      return invalid("x is ", text_of(shape), " and bias is ", text_of(length),
                     ": one value for each column is needed.");
    }
    Ort::UnownedValue y = context.GetOutput(0, shape);
    const float *px = x.GetTensorData<float>(), *pb = bias.GetTensorData<float>();
    float* py = y.GetTensorMutableData<float>();
    for (int64_t row = 0; row < shape[0]; ++row) {
      for (int64_t column = 0; column < shape[1]; ++column) *py++ = *px++ + scale * pb[column];
    }
    return nullptr;
  } catch (const Ort::Exception& error) {  // ONNX Runtime's own: it has a code
    return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
  } catch (const std::exception& error) {
    return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
  } catch (...) {
    return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, "AddBias: unknown exception");
  }
}
// END

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
