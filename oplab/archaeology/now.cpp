// The kernel of then.cpp on the API of today, with a third, optional input of another dtype: out = x + y, times scale.
#include <onnxruntime_cxx_api.h>

#include <vector>

struct AddKernel {
  void Compute(OrtKernelContext* raw) {
    Ort::KernelContext context{raw};
    const Ort::ConstValue x = context.GetInput(0);
    const Ort::ConstValue y = context.GetInput(1);

    const Ort::TensorTypeAndShapeInfo info = x.GetTensorTypeAndShapeInfo();  // frees itself
    const std::vector<int64_t> shape = info.GetShape();
    if (y.GetTensorTypeAndShapeInfo().GetShape() != shape) {
      ORT_CXX_API_THROW("Foo: x and y must have the same shape.", ORT_INVALID_ARGUMENT);
    }
    Ort::UnownedValue out = context.GetOutput(0, shape);

    int64_t scale = 1;
    if (context.GetInputCount() > 2 && context.GetInput(2)) {  // left out, or an empty name
      const Ort::ConstValue given = context.GetInput(2);
      if (given.GetTensorTypeAndShapeInfo().GetElementCount() != 1) {
        ORT_CXX_API_THROW("Foo: scale must be one number.", ORT_INVALID_ARGUMENT);
      }
      scale = *given.GetTensorData<int64_t>();
    }

    const size_t size = info.GetElementCount();
    const float* px = x.GetTensorData<float>();
    const float* py = y.GetTensorData<float>();
    float* pout = out.GetTensorMutableData<float>();
    for (size_t i = 0; i < size; ++i) pout[i] = scale * (px[i] + py[i]);
    // A CUDA kernel asks for its stream here: context.GetGPUComputeStream().
  }
};

struct AddOp : Ort::CustomOpBase<AddOp, AddKernel> {
  void* CreateKernel(const OrtApi&, const OrtKernelInfo*) const { return new AddKernel; }
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

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* raw, const OrtApiBase* base) {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  try {
    static const AddOp op;  // the op and its domain outlive every session
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"archaeology"};
      made.Add(&op);
      return made;
    }();
    Ort::UnownedSessionOptions options{raw};
    options.Add(domain);
    return nullptr;
  } catch (const std::exception& error) {
    return Ort::GetApi().CreateStatus(ORT_FAIL, error.what());
  }
}
