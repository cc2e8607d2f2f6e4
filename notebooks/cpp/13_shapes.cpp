// Chapter 13: a copy that infers its shape, with the C++ helper and with oplab::Shapes.
#include "13_kernel.h"
#include "oplab_kernel.h"

namespace {

// ONNX Runtime's own helper.
template <typename T>
struct HelperKernel {
  static void compute(const Ort::KernelContext& context) {
    const Ort::ConstValue x = context.GetInput(0);
    const auto info = x.GetTensorTypeAndShapeInfo();
    T* y = context.GetOutput(0, info.GetShape()).template GetTensorMutableData<T>();
    std::copy_n(x.GetTensorData<T>(), info.GetElementCount(), y);
  }
};

template <typename T>
struct Helper : Base<Helper<T>, HelperKernel<T>> {
  const char* GetName() const { return "Helper"; }
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 1; }
  Type GetInputType(size_t) const { return Ort::TypeToTensorType<T>::type; }
  Type GetOutputType(size_t) const { return Ort::TypeToTensorType<T>::type; }
  static Ort::Status InferOutputShape(Ort::ShapeInferContext& context) {
    return context.SetOutputShape(0, context.GetInputShape(0));
  }
};

// The course's header.
template <typename T>
struct NamedCopy {
  NamedCopy(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(const oplab::Tensor<T>& x, oplab::Tensor<T>& y) {
    std::copy_n(x.Data(), x.NumberOfElement(), y.Allocate(x.Shape()));
    return Ort::Status{nullptr};
  }
  static void InferShapes(oplab::Shapes& shapes) {
    shapes.set(0, shapes.type(0), shapes.dims(0));
  }
};

template <typename T>
struct Named : oplab::Op<NamedCopy<T>> {
  Named() : oplab::Op<NamedCopy<T>>("Named") {}
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return add_to_lesson<Helper<float>, Helper<double>, Named<float>, Named<double>>(options,
                                                                                   base);
}
