// says: scale left out: inputs of [4, 5] and [5] are right, and the kernel refuses them
// c12.errors: AddBias(x [rows, columns], bias [columns]; scale = 1.0) -> y [rows, columns] = x + scale*bias
//
// Everything else is refused with a status of the code ORT_INVALID_ARGUMENT. Its sentence begins with "AddBias: " and names
// - x or bias, with its whole shape such as [2, 3, 4], where the rank is not 2 or not 1;
// - both shapes, where the lengths do not fit;
// - scale, where the model gives it another type than float, or a value that is not finite and above 0 (then: that value).
// An exception must not leave Create or ComputeV2: C calls them.
#include <onnxruntime_cxx_api.h>

#include <cmath>
#include <optional>
#include <sstream>

namespace {

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept;  // a null pointer: all went well
  float scale = 1.0f;
};

OrtStatus* Create(const OrtKernelInfo* info, Kernel& kernel) noexcept;  // sets kernel.scale


OrtStatus* invalid(const std::string& s) { return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, ("AddBias: " + s).c_str()); }
std::string text(const std::vector<int64_t>& shape) {
  std::ostringstream out;
  for (size_t i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
  return "[" + out.str() + "]";
}
OrtStatus* Create(const OrtKernelInfo* info, Kernel& kernel) noexcept {
  try {
    const OrtApi& api = Ort::GetApi();
    const Ort::Status missing{api.KernelInfoGetAttribute_float(info, "scale", &kernel.scale)};
    if (!missing.IsOK()) {
      int64_t i; size_t n = 0;
      const Ort::Status as_int{api.KernelInfoGetAttribute_int64(info, "scale", &i)};
      //STRING
      const Ort::Status as_string{api.KernelInfoGetAttribute_string(info, "scale", nullptr, &n)};
      const Ort::Status as_floats{api.KernelInfoGetAttributeArray_float(info, "scale", nullptr, &n)};
      const Ort::Status as_ints{api.KernelInfoGetAttributeArray_int64(info, "scale", nullptr, &n)};
      if (as_int.IsOK() || as_string.IsOK() || as_floats.IsOK() || as_ints.IsOK()) return invalid("scale must be a float.");
      kernel.scale = 1.0f;
    }
    if (!(kernel.scale > 0) || !std::isfinite(kernel.scale)) return invalid("scale must be finite and above 0, it is " + std::to_string(kernel.scale));
    return nullptr;
  } catch (const std::exception& e) { return invalid(e.what()); }
}
OrtStatus* Kernel::ComputeV2(OrtKernelContext* raw) noexcept {
  try {
    const Ort::KernelContext context{raw};
    const Ort::ConstValue x = context.GetInput(0), b = context.GetInput(1);
    const auto sx = x.GetTensorTypeAndShapeInfo().GetShape(), sb = b.GetTensorTypeAndShapeInfo().GetShape();
    if (sx.size() != 2) return invalid("x must have two dimensions, it is " + text(sx));
    if (sb.size() != 1) return invalid("bias must have one dimension, it is " + text(sb));
    if (sx[0] != sb[0]) return invalid("x is " + text(sx) + " and bias is " + text(sb));
    float* y = context.GetOutput(0, sx).GetTensorMutableData<float>();
    const float *px = x.GetTensorData<float>(), *pb = b.GetTensorData<float>();
    for (int64_t i = 0; i < sx[0]; ++i) for (int64_t j = 0; j < sx[1]; ++j) y[i * sx[1] + j] = px[i * sx[1] + j] + scale * pb[j];
    return nullptr;
  } catch (const std::exception& e) { return invalid(e.what()); }
}

struct AddBias : Ort::CustomOpBase<AddBias, Kernel, true> {  // true: with status, so Create…V2 and ComputeV2
  OrtStatus* CreateKernelV2(const OrtApi&, const OrtKernelInfo* info, void** made) const noexcept {
    auto kernel = std::make_unique<Kernel>();
    if (OrtStatus* failed = Create(info, *kernel)) return failed;
    *made = kernel.release();
    return nullptr;
  }
  const char* GetName() const { return "AddBias"; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "this ONNX Runtime is older than the library's headers");
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
  }
}
