// says: The inputs are swapped
#include <onnxruntime_lite_custom_op.h>  // the lite API, and with it onnxruntime_cxx_api.h

#include <cmath>

namespace {

struct FooKernel {
  explicit FooKernel(const Ort::ConstKernelInfo& info)
      : attr1(info.GetAttribute<float>("attr1")), attr2(info.GetAttribute<int64_t>("attr2")) {}

  void Compute(OrtKernelContext* raw) {
    const Ort::KernelContext context{raw};
    const Ort::ConstValue input1 = context.GetInput(0), input2 = context.GetInput(1);
    const Ort::TensorTypeAndShapeInfo info = input1.GetTensorTypeAndShapeInfo();
    Ort::UnownedValue output = context.GetOutput(0, info.GetShape());
    const float *x1 = input1.GetTensorData<float>(), *x2 = input2.GetTensorData<float>();
    float* y = output.GetTensorMutableData<float>();
    const size_t size = info.GetElementCount();
    for (size_t i = 0; i < size; ++i) y[i] = attr1 * x2[i] + static_cast<float>(std::pow(x1[i], attr2));
  }

  const float attr1;
  const int64_t attr2;
};

struct FooOp : Ort::CustomOpBase<FooOp, FooKernel> {
  FooOp() { start_ver_ = 2; }
  void* CreateKernel(const OrtApi&, const OrtKernelInfo* info) const {
    return new FooKernel(Ort::ConstKernelInfo{info});
  }
  const char* GetName() const { return "Foo"; }
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
    static const FooOp op;
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
