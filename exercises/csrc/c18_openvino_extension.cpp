// c18.openvino_extension: a library that teaches OpenVINO the operator oplab::MyAdd. It is
// loaded with core.add_extension(path). MyAdd then works in ONNX files, and in the files that
// OpenVINO writes.
//
//   oplab::MyAdd(a, b; alpha = 3, beta = 2) -> y = alpha * a + beta * b, all of them float32
//
// - y has the shape of a and b, as far as the model knows it: for a[?, 3] and b[2, ?] it is
//   [2, 3]. Shapes that cannot be the same are refused when a model is read, others when it
//   runs. Nothing is broadcast.
// - Another element type of a or b is refused when a model is read. evaluate() is also called
//   without a model: it looks at types and shapes again, and y may have had another shape.
// - Refused means an exception. Its sentence has both shapes, or the element type.
// - OpenVINO copies the operator when it compiles a model, writes its attributes to files, and
//   calls evaluate() from several threads at once.
// Not allowed (contains the answer): csrc/openvino_ops/*.
#include <openvino/frontend/onnx/extension/conversion.hpp>

#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/op/op.hpp>

// TODO c18.openvino_extension: MyAdd for OpenVINO in C++, in models and in files
#error "c18.openvino_extension is not written yet"
