// A kernel in the style of ONNX Runtime up to 1.15: out = x + y. It does not compile today; chapter 09 shows the errors.
#include <onnxruntime_cxx_api.h>

#include <vector>

struct AddKernel {
  AddKernel(Ort::CustomOpApi ort, void* stream) : ort_(ort), stream_(stream) {}

  void Compute(OrtKernelContext* context) {
    const OrtValue* x = ort_.KernelContext_GetInput(context, 0);
    const OrtValue* y = ort_.KernelContext_GetInput(context, 1);

    OrtTensorDimensions shape(ort_, x);
    OrtValue* out = ort_.KernelContext_GetOutput(context, 0, shape.data(), shape.size());

    OrtTensorTypeAndShapeInfo* info = ort_.GetTensorTypeAndShape(out);
    const int64_t size = ort_.GetTensorShapeElementCount(info);
    ort_.ReleaseTensorTypeAndShapeInfo(info);

    const float* px = ort_.GetTensorData<float>(x);
    const float* py = ort_.GetTensorData<float>(y);
    float* pout = ort_.GetTensorMutableData<float>(out);
    ORT_UNUSED_PARAMETER(stream_);
    for (int64_t i = 0; i < size; ++i) pout[i] = px[i] + py[i];
  }

 private:
  Ort::CustomOpApi ort_;
  void* stream_;
};

struct AddOp : Ort::CustomOpBase<AddOp, AddKernel> {
  void* CreateKernel(Ort::CustomOpApi api, const OrtKernelInfo*) const { return new AddKernel(api, nullptr); }
  const char* GetName() const { return "Foo"; }
  const char* GetExecutionProviderType() const { return onnxruntime::kCpuExecutionProvider; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};
