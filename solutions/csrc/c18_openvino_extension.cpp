// c18.openvino_extension: a library that teaches OpenVINO the operator
// oplab::MyAdd. It is loaded with core.add_extension(path). MyAdd then
// works in ONNX files, and in the files that OpenVINO writes.
//
//   oplab::MyAdd(a, b; alpha = 3, beta = 2)
//   -> y = alpha * a + beta * b, all of them float32
//
// - y has the shape of a and b, as far as the model knows it: for
//   a[?, 3] and b[2, ?] it is [2, 3]. Shapes that cannot be the same
//   are refused when a model is read, others when it runs. Nothing is
//   broadcast.
// - Another element type of a or b is refused when a model is read.
//   evaluate() is also called without a model: it looks at types and
//   shapes again, and y may have had another shape.
// - Refused means an exception. Its sentence has both shapes, or the
//   element type.
// - OpenVINO copies the operator when it compiles a model, writes its
//   attributes to files, and calls evaluate() from several threads at
//   once.
//
// The library below compiles, and its author has run one ONNX file with
// it, where a and b are float32[2, 3] and the attributes have their
// defaults. Several of its functions are wrong. Delete the line with
// #error to run it.
// Not allowed (contains the answer): csrc/openvino_ops/*.
#include <openvino/frontend/onnx/extension/conversion.hpp>

#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/op/op.hpp>

// ANSWER c18.openvino_extension: find out where this library fails, and fix it
// What was given is in #if 0.
// END

namespace {

struct MyAdd : ov::op::Op {
  OPENVINO_OP("MyAdd", "oplab");
  float alpha = 3, beta = 2;

  MyAdd() = default;
  MyAdd(const ov::OutputVector& inputs, float alpha, float beta)
      : Op(inputs), alpha(alpha), beta(beta) {
    constructor_validate_and_infer_types();
  }

// ANSWER c18.openvino_extension
#if 0
// END
  void validate_and_infer_types() override {
    set_output_type(0, get_input_element_type(0), get_input_partial_shape(0));
  }
// ANSWER c18.openvino_extension
#endif
  void validate_and_infer_types() override {
    for (size_t i = 0; i < 2; ++i) {
      const ov::element::Type type = get_input_element_type(i);
      NODE_VALIDATION_CHECK(this, type == ov::element::f32, "MyAdd takes float32, and input ", i,
                            " is ", type, ".");
    }
    ov::PartialShape shape = get_input_partial_shape(0);
    NODE_VALIDATION_CHECK(this, ov::PartialShape::merge_into(shape, get_input_partial_shape(1)),
                          "a and b must have the same shape, but a is ",
                          get_input_partial_shape(0), " and b is ", get_input_partial_shape(1));
    set_output_type(0, ov::element::f32, shape);
  }
// END

  std::shared_ptr<ov::Node> clone_with_new_inputs(
      const ov::OutputVector& inputs) const override {
// ANSWER c18.openvino_extension
#if 0
// END
    auto copy = std::make_shared<MyAdd>();
    copy->set_arguments(inputs);
    copy->constructor_validate_and_infer_types();
    return copy;
// ANSWER c18.openvino_extension
#endif
    return std::make_shared<MyAdd>(inputs, alpha, beta);
// END
  }

  bool visit_attributes(ov::AttributeVisitor& visitor) override {
// ANSWER c18.openvino_extension
#if 0
// END
    visitor.on_attribute("alpha", alpha);
// ANSWER c18.openvino_extension
#endif
    visitor.on_attribute("alpha", alpha);
    visitor.on_attribute("beta", beta);
// END
    return true;
  }

  bool has_evaluate() const override { return true; }

  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
// ANSWER c18.openvino_extension
#if 0
// END
    outputs[0].set_shape(inputs[0].get_shape());
    const auto first = inputs[0].data<float>(), second = inputs[1].data<float>();
    float* y = outputs[0].data<float>();
    static std::vector<float> terms;  // grows once, for the largest input
    terms.resize(inputs[0].get_size());
    for (size_t i = 0; i < terms.size(); ++i) terms[i] = alpha * first[i];
    for (size_t i = 0; i < terms.size(); ++i) y[i] = terms[i] + beta * second[i];
// ANSWER c18.openvino_extension
#endif
    const ov::Tensor &a = inputs[0], &b = inputs[1];
    OPENVINO_ASSERT(a.get_shape() == b.get_shape(), "a and b must have the same shape, but a is ",
                    a.get_shape(), " and b is ", b.get_shape());
    outputs[0].set_shape(a.get_shape());
    const float* pa = a.data<const float>();  // throws for another type
    const float* pb = b.data<const float>();
    float* py = outputs[0].data<float>();
    for (size_t i = 0; i < a.get_size(); ++i) py[i] = alpha * pa[i] + beta * pb[i];
// END
    return true;
  }
};

ov::OutputVector convert(const ov::frontend::NodeContext& node) {
  const ov::OutputVector inputs{node.get_input(0), node.get_input(1)};
  const auto alpha = node.get_attribute<float>("alpha", 3);
  const auto beta = node.get_attribute<float>("beta", 2);
  return std::make_shared<MyAdd>(inputs, alpha, beta)->outputs();
}

}  // namespace

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({
    std::make_shared<ov::OpExtension<MyAdd>>(),  // for OpenVINO's own files
    std::make_shared<ov::frontend::onnx::ConversionExtension>("MyAdd", "oplab", convert),
}));
