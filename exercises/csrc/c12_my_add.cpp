// c12.my_add: a library for ONNX Runtime with one operator, from the first line to the last.
//
//   domain c12, version 1:   MyAdd(a, b; alpha = 3.0, beta = 2.0) -> y = alpha*a + beta*b
//
// a, b and y are float and have the same shape: any number of dimensions, also none, and sizes of 0. alpha and beta are
// float attributes, and a model may leave out either one or both. Use CustomOpBase or the lite API, as you like. A constructor
// of the lite API can only throw: ONNX Runtime 1.31 then refuses the session, but nothing promises that it does.
//
// An attribute of another type is refused when the session is made, with a sentence that names it. (ONNX Runtime then
// reports RUNTIME_EXCEPTION, whatever the code of your status is.) Shapes that differ are a status of the code
// ORT_INVALID_ARGUMENT, not an exception, with a sentence that names both, such as [2, 3] and [3].
// Not allowed, because the answer is in it: csrc/ort_ops/my_add.cpp.
#include <onnxruntime_lite_custom_op.h>  // the lite API, and with it onnxruntime_cxx_api.h

#include <exception>
#include <memory>
#include <string>
#include <vector>

// TODO c12.my_add: the kernel with its attributes, the operator, and the function that ONNX Runtime looks for
#error "c12.my_add is not written yet"
