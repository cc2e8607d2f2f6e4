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

// TODO c12.my_add: the kernel with its attributes, the operator, and the entry point
#error "c12.my_add is not written yet"
