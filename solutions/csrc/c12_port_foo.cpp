// c12.port_foo: port a kernel from 2022 to the current API.
//
//   domain c12, from version 2 on:
//     Foo(input1, input2; attr1 float, attr2 int) -> y = attr1*input1 + input2**attr2
//
// The tensors are float, of any shape, the same for both inputs. A
// model that imports version 1 of c12 must not find Foo. ONNX Runtime
// creates many kernels of one operator, and calls each of them from
// several threads at once: store the attributes in the kernel, and
// nothing that a run computes. Free what you allocate, and only read
// the inputs.
//
// Reject an attribute that is missing or of another type when the
// session is created, with a message that names it. For shapes that
// differ, return a status with the code ORT_INVALID_ARGUMENT, do not
// throw. Its message names both shapes, such as [2, 3] and [3]. The old
// kernel throws for a bad attribute and never compares the shapes:
//
//   struct FooKernel {
//     FooKernel(Ort::CustomOpApi ort, const OrtKernelInfo* info) : ort_(ort) {
//       attr1_ = ort_.KernelInfoGetAttribute<float>(info, "attr1");
//       attr2_ = ort_.KernelInfoGetAttribute<int64_t>(info, "attr2");
//     }
//     void Compute(OrtKernelContext* context) {
//       const OrtValue* input1 = ort_.KernelContext_GetInput(context, 0);
//       const OrtValue* input2 = ort_.KernelContext_GetInput(context, 1);
//       const float* x1 = ort_.GetTensorData<float>(input1);
//       const float* x2 = ort_.GetTensorData<float>(input2);
//       OrtTensorDimensions shape(ort_, input1);
//       OrtValue* output =
//           ort_.KernelContext_GetOutput(context, 0, shape.data(), shape.size());
//       float* y = ort_.GetTensorMutableData<float>(output);
//       OrtTensorTypeAndShapeInfo* info = ort_.GetTensorTypeAndShape(output);
//       int64_t size = ort_.GetTensorShapeElementCount(info);
//       ort_.ReleaseTensorTypeAndShapeInfo(info);
//       for (int64_t i = 0; i < size; i++) y[i] = attr1_ * x1[i] + std::pow(x2[i], attr2_);
//     }
//     Ort::CustomOpApi ort_;
//     float attr1_;
//     int64_t attr2_;
//   };
// Not allowed (contains the answer): csrc/ort_ops/foo.cpp.
#include <onnxruntime_lite_custom_op.h>  // the lite API, and with it onnxruntime_cxx_api.h

#include <cmath>
#include <exception>
#include <memory>
#include <string>
#include <vector>

// ANSWER c12.port_foo: the kernel, an operator that begins at version 2, and the entry point
namespace {

OrtStatus* invalid(const std::string& sentence) {
  return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, ("Foo: " + sentence).c_str());
}

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

struct FooKernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {  // C calls it: no exception may leave
    try {
      const Ort::KernelContext context{raw};
      const Ort::ConstValue input1 = context.GetInput(0), input2 = context.GetInput(1);
      const Ort::TensorTypeAndShapeInfo info = input1.GetTensorTypeAndShapeInfo();
      const std::vector<int64_t> shape = info.GetShape();
      const std::vector<int64_t> other = input2.GetTensorTypeAndShapeInfo().GetShape();
      if (shape != other) {
        return invalid("input1 is " + text_of(shape) + " and input2 is " + text_of(other) +
                       ": they must be equal.");
      }
      Ort::UnownedValue output = context.GetOutput(0, shape);
      const float *x1 = input1.GetTensorData<float>(), *x2 = input2.GetTensorData<float>();
      float* y = output.GetTensorMutableData<float>();
      const size_t size = info.GetElementCount();
      for (size_t i = 0; i < size; ++i) {
        y[i] = attr1 * x1[i] + static_cast<float>(std::pow(x2[i], attr2));
      }
      return nullptr;
    } catch (const Ort::Exception& error) {  // ONNX Runtime's own: it has a code
      return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    } catch (...) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, "Foo: an unknown C++ exception");
    }
  }

  float attr1 = 0;
  int64_t attr2 = 0;
};

struct FooOp : Ort::CustomOpBase<FooOp, FooKernel, true> {  // true: with a status
  FooOp() { start_ver_ = 2; }
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo* info,
                            void** made) const noexcept {
    try {
      auto kernel = std::make_unique<FooKernel>();
      // Both are required, so "missing" and "of another type" need not be told apart. For a
      // wrong type, ONNX Runtime's message does not name the attribute.
      const Ort::Status first{api.KernelInfoGetAttribute_float(info, "attr1", &kernel->attr1)};
      if (!first.IsOK()) {
        return invalid("the attribute attr1 must be a float: " + first.GetErrorMessage());
      }
      const Ort::Status second{api.KernelInfoGetAttribute_int64(info, "attr2", &kernel->attr2)};
      if (!second.IsOK()) {
        return invalid("the attribute attr2 must be an int: " + second.GetErrorMessage());
      }
      *made = kernel.release();
      return nullptr;
    } catch (...) {
      return api.CreateStatus(ORT_FAIL, "Foo: no memory for a kernel");
    }
  }
  const char* GetName() const { return "Foo"; }
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
    static const FooOp op;
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
