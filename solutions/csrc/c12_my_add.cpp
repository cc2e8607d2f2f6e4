// c12.my_add: a library for ONNX Runtime with one operator, from the
// first line to the last.
//
//   domain c12, version 1:
//     MyAdd(a, b; alpha = 3.0, beta = 2.0) -> y = alpha*a + beta*b
//
// a, b and y are float and have the same shape: any number of
// dimensions, also none, and sizes of 0. alpha and beta are float
// attributes, and a model may leave out either one or both. Use
// CustomOpBase or the lite API, as you like. A constructor of the lite
// API can only throw: ONNX Runtime 1.31 then does not create the
// session, but this is not guaranteed.
//
// Reject an attribute of another type when the session is created, with
// a message that names it. (ONNX Runtime then reports
// RUNTIME_EXCEPTION, whatever the code of your status is.) For shapes
// that differ, return a status with the code ORT_INVALID_ARGUMENT, do
// not throw. Its message names both shapes, such as [2, 3] and [3].
//
// ONNX Runtime creates many kernels of one operator, and calls each of
// them from several threads at once: store the attributes in the
// kernel, and nothing that a run computes. Free what you allocate, and
// only read the inputs. Not allowed (contains the answer):
// csrc/ort_ops/my_add.*.
#include <onnxruntime_lite_custom_op.h>  // the lite API, and with it onnxruntime_cxx_api.h

#include <exception>
#include <memory>
#include <string>
#include <vector>

// ANSWER c12.my_add: the kernel with its attributes, the operator, and the entry point
namespace {

OrtStatus* invalid(const std::string& sentence) {
  return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, ("MyAdd: " + sentence).c_str());
}

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

// Leaves `value` as it is where the model does not set the attribute.
OrtStatus* read(const OrtKernelInfo* info, const char* name, float& value) {
  const OrtApi& api = Ort::GetApi();
  float given;
  if (Ort::Status{api.KernelInfoGetAttribute_float(info, name, &given)}.IsOK()) {
    value = given;
    return nullptr;
  }
  // ONNX Runtime reports "missing" and "of another type" with one code. Asking for the other
  // types tells the two apart.
  int64_t whole;
  size_t size = 0;
  if (Ort::Status{api.KernelInfoGetAttribute_int64(info, name, &whole)}.IsOK() ||
      Ort::Status{api.KernelInfoGetAttribute_string(info, name, nullptr, &size)}.IsOK() ||
      Ort::Status{api.KernelInfoGetAttributeArray_float(info, name, nullptr, &size)}.IsOK() ||
      Ort::Status{api.KernelInfoGetAttributeArray_int64(info, name, nullptr, &size)}.IsOK()) {
    return invalid(std::string("the attribute ") + name + " must be a float.");
  }
  return nullptr;
}

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {  // C calls it: no exception may leave
    try {
      const Ort::KernelContext context{raw};
      const Ort::ConstValue a = context.GetInput(0), b = context.GetInput(1);
      const Ort::TensorTypeAndShapeInfo info = a.GetTensorTypeAndShapeInfo();
      const std::vector<int64_t> shape = info.GetShape();
      const std::vector<int64_t> other = b.GetTensorTypeAndShapeInfo().GetShape();
      if (shape != other) {
        return invalid("a is " + text_of(shape) +
                       " and b is " + text_of(other) + ": they must be equal.");
      }
      Ort::UnownedValue y = context.GetOutput(0, shape);
      const float *pa = a.GetTensorData<float>(), *pb = b.GetTensorData<float>();
      float* py = y.GetTensorMutableData<float>();
      const size_t size = info.GetElementCount();
      for (size_t i = 0; i < size; ++i) py[i] = alpha * pa[i] + beta * pb[i];
      return nullptr;
    } catch (const Ort::Exception& error) {  // ONNX Runtime's own: it has a code
      return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    } catch (...) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, "MyAdd: unknown exception");
    }
  }

  float alpha = 3.0f, beta = 2.0f;
};

struct MyAdd : Ort::CustomOpBase<MyAdd, Kernel, true> {  // true: with a status
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo* info,
                            void** made) const noexcept {
    try {
      auto kernel = std::make_unique<Kernel>();
      if (OrtStatus* failed = read(info, "alpha", kernel->alpha)) return failed;
      if (OrtStatus* failed = read(info, "beta", kernel->beta)) return failed;
      *made = kernel.release();
      return nullptr;
    } catch (...) {
      return api.CreateStatus(ORT_FAIL, "MyAdd: no memory for a kernel");
    }
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

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "ONNX Runtime is too old");
  Ort::InitApi(api);
  try {
    static const MyAdd op;
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
// END
