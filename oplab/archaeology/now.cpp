// The kernel of then.cpp with today's API, and with a third, optional input of another dtype: out = scale * (x + y).
#include <onnxruntime_cxx_api.h>

#include <string>
#include <vector>

static std::string text_of(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

static OrtStatus* invalid(const std::string& sentence) {
  return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, ("Foo: " + sentence).c_str());
}

struct AddKernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {  // C calls it: a status for what is wrong, and no exception
    try {
      const Ort::KernelContext context{raw};
      const Ort::ConstValue x = context.GetInput(0);
      const Ort::ConstValue y = context.GetInput(1);

      const Ort::TensorTypeAndShapeInfo info = x.GetTensorTypeAndShapeInfo();  // frees itself
      const std::vector<int64_t> shape = info.GetShape(), other = y.GetTensorTypeAndShapeInfo().GetShape();
      if (shape != other) return invalid("x is " + text_of(shape) + " and y is " + text_of(other) + ": they must be equal.");
      Ort::UnownedValue out = context.GetOutput(0, shape);

      int64_t scale = 1;
      if (context.GetInputCount() > 2 && context.GetInput(2)) {  // left out, or an empty name
        const Ort::ConstValue given = context.GetInput(2);
        const Ort::TensorTypeAndShapeInfo one = given.GetTensorTypeAndShapeInfo();
        if (one.GetElementCount() != 1) return invalid("scale must be one number, but it is " + text_of(one.GetShape()) + ".");
        scale = *given.GetTensorData<int64_t>();
      }

      const size_t size = info.GetElementCount();
      const float* px = x.GetTensorData<float>();
      const float* py = y.GetTensorData<float>();
      float* pout = out.GetTensorMutableData<float>();
      for (size_t i = 0; i < size; ++i) pout[i] = scale * (px[i] + py[i]);
      // A CUDA kernel asks for its stream here: context.GetGPUComputeStream().
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    }
  }
};

struct AddOp : Ort::CustomOpBase<AddOp, AddKernel, true> {  // true: with status, so CreateKernelV2 and ComputeV2
  OrtStatus* CreateKernelV2(const OrtApi&, const OrtKernelInfo*, void** made) const noexcept {
    *made = new AddKernel;
    return nullptr;
  }
  const char* GetName() const { return "Foo"; }
  const char* GetExecutionProviderType() const { return "CPUExecutionProvider"; }
  size_t GetInputTypeCount() const { return 3; }
  ONNXTensorElementDataType GetInputType(size_t index) const {
    return index == 2 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(size_t index) const {
    return index == 2 ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "this ONNX Runtime is older than the library's headers");
  Ort::InitApi(api);
  try {
    static const AddOp op;  // the op and its domain outlive every session
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"archaeology"};
      made.Add(&op);
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  }
}
