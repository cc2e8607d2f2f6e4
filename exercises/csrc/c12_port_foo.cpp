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

// TODO c12.port_foo: the kernel, an operator that begins at version 2, and the entry point
#error "c12.port_foo is not written yet"
