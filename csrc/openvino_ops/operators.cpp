// The course's operators for OpenVINO: MyAdd, DynamicResize and KNNQuery. One library with the extensions for OpenVINO's graph
// (ov::OpExtension) and for its ONNX frontend (ConversionExtension); `core.add_extension(path)` loads both.
//
// OpenVINO runs such an operator on the CPU with evaluate(), which is called for one node at a time. It has no function for
// threads of its own, so each operator runs on the thread that calls it.
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/frontend/onnx/extension/conversion.hpp>
#include <openvino/op/op.hpp>

#include "../common/knn.h"
#include "../common/resize.h"
#include "../common/text.h"

namespace {

using ov::PartialShape;
using ov::Tensor;
using ov::TensorVector;

// An exception here becomes a RuntimeError of infer(), with the node's name before it.
auto refusing(const char* name) {
  return [name](const auto&... args) { throw std::runtime_error(oplab::make_string(name, ": ", args...)); };
}
constexpr auto kSerial = [](int64_t size, int64_t, const auto& work) { work(int64_t{0}, size); };

std::vector<int64_t> dims(const ov::Shape& shape) { return {shape.begin(), shape.end()}; }

// Calls work(T{}) for the element type of a tensor, float or double.
template <typename Refuse, typename Work>
void with_type(const char* name, const ov::element::Type& type, const Refuse& refuse, const Work& work) {
  if (type == ov::element::f32) return work(float{});
  if (type == ov::element::f64) return work(double{});
  refuse(name, " must be float or double, but it is ", type.get_type_name(), ".");
}

// y = alpha*a + beta*b.
struct MyAdd : ov::op::Op {
  OPENVINO_OP("MyAdd", "oplab");
  float alpha = 3, beta = 2;

  MyAdd() = default;
  MyAdd(const ov::OutputVector& inputs, float alpha, float beta) : Op(inputs), alpha(alpha), beta(beta) {
    constructor_validate_and_infer_types();
  }

  void validate_and_infer_types() override {
    PartialShape shape = get_input_partial_shape(0);
    NODE_VALIDATION_CHECK(this, PartialShape::merge_into(shape, get_input_partial_shape(1)),
                          "a and b must have the same shape, but a is ", get_input_partial_shape(0), " and b is ",
                          get_input_partial_shape(1), ".");
    set_output_type(0, get_input_element_type(0), shape);
  }
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
    return std::make_shared<MyAdd>(inputs, alpha, beta);
  }
  bool visit_attributes(ov::AttributeVisitor& visitor) override {
    visitor.on_attribute("alpha", alpha);
    visitor.on_attribute("beta", beta);
    return true;
  }
  bool has_evaluate() const override { return true; }
  bool evaluate(TensorVector& outputs, const TensorVector& inputs) const override {
    const Tensor &a = inputs[0], &b = inputs[1];
    if (a.get_shape() != b.get_shape()) {
      refusing("MyAdd")("a and b must have the same shape, but a is ", oplab::shape_text(dims(a.get_shape())),
              " and b is ", oplab::shape_text(dims(b.get_shape())), ".");
    }
    outputs[0].set_shape(a.get_shape());
    with_type("a", a.get_element_type(), refusing("MyAdd"), [&](auto zero) {
      using T = decltype(zero);
      const T *pa = a.data<const T>(), *pb = b.data<const T>();
      T* py = outputs[0].data<T>();
      for (size_t i = 0; i < a.get_size(); ++i) py[i] = T(alpha) * pa[i] + T(beta) * pb[i];
    });
    return true;
  }
};

// x, enlarged or reduced bicubically by factors that are inputs.
struct DynamicResize : ov::op::Op {
  OPENVINO_OP("DynamicResize", "oplab");

  DynamicResize() = default;
  explicit DynamicResize(const ov::OutputVector& inputs) : Op(inputs) { constructor_validate_and_infer_types(); }

  void validate_and_infer_types() override {
    PartialShape y = get_input_partial_shape(0);
    NODE_VALIDATION_CHECK(this, y.rank().compatible(4), "x must have 4 dimensions, but its shape is ", y, ".");
    // The values of scales decide, so only y's rank, N and C are known.
    set_output_type(0, get_input_element_type(0),
                    y.rank().is_static() ? PartialShape{y[0], y[1], -1, -1} : PartialShape::dynamic(4));
  }
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
    return std::make_shared<DynamicResize>(inputs);
  }
  bool visit_attributes(ov::AttributeVisitor&) override { return true; }
  bool has_evaluate() const override { return true; }
  bool evaluate(TensorVector& outputs, const TensorVector& inputs) const override {
    const Tensor &x = inputs[0], &scales = inputs[1];
    const std::vector<int64_t> shape = dims(x.get_shape());
    const auto refuse = refusing("DynamicResize");
    oplab::resize::check_shapes(shape, dims(scales.get_shape()), refuse);
    const oplab::Images images = oplab::resize::plan(shape, scales.data<const float>(), refuse);
    outputs[0].set_shape({x.get_shape()[0], x.get_shape()[1], static_cast<size_t>(images.new_height),
                          static_cast<size_t>(images.new_width)});
    with_type("x", x.get_element_type(), refuse, [&](auto zero) {
      using T = decltype(zero);
      oplab::resize_images(images, x.data<const T>(), outputs[0].data<T>(), kSerial);
    });
    return true;
  }
};

// The indices of each query's nearest neighbours in its batch, and their distances.
struct KNNQuery : ov::op::Op {
  OPENVINO_OP("KNNQuery", "oplab");
  int64_t nsample = 0;

  KNNQuery() = default;
  KNNQuery(const ov::OutputVector& inputs, int64_t nsample) : Op(inputs), nsample(nsample) {
    constructor_validate_and_infer_types();
  }

  void validate_and_infer_types() override {
    oplab::knn::check_nsample(nsample, refusing("KNNQuery"));
    const PartialShape queries = get_input_partial_shape(get_input_size() > 2 ? 2 : 0);
    const PartialShape found{queries.rank().is_static() && queries.size() ? queries[0] : ov::Dimension(), nsample};
    set_output_type(0, ov::element::i32, found);
    set_output_type(1, get_input_element_type(0), found);
  }
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
    return std::make_shared<KNNQuery>(inputs, nsample);
  }
  bool visit_attributes(ov::AttributeVisitor& visitor) override {
    visitor.on_attribute("nsample", nsample);
    return true;
  }
  bool has_evaluate() const override { return true; }
  bool evaluate(TensorVector& outputs, const TensorVector& inputs) const override {
    using Shape = std::optional<oplab::knn::Shape>;
    const bool is_self = inputs.size() < 3;
    const auto refuse = refusing("KNNQuery");
    const auto shape = [&](size_t i) { return is_self ? Shape{} : Shape{dims(inputs[i].get_shape())}; };
    oplab::knn::check_shapes(nsample, dims(inputs[0].get_shape()), dims(inputs[1].get_shape()), shape(2), shape(3),
                             refuse);
    const size_t n = inputs[0].get_shape()[0], queries = is_self ? n : inputs[2].get_shape()[0];
    with_type("xyz", inputs[0].get_element_type(), refuse, [&](auto zero) {
      using T = decltype(zero);
      static const T empty[3] = {};  // an empty tensor may have no memory, and null means that new_xyz is absent
      oplab::KnnQuery<T> query{nsample, inputs[0].data<const T>(), values_of(inputs[1]), nullptr, {}};
      if (!is_self) {
        query.new_xyz = queries ? inputs[2].data<const T>() : empty;
        query.new_offset = values_of(inputs[3]);
      }
      const auto allocate = [&] {
        for (Tensor& output : outputs) output.set_shape({queries, static_cast<size_t>(nsample)});
        return std::pair(outputs[0].data<int32_t>(), outputs[1].data<T>());
      };
      oplab::find_neighbours(query, n, queries, refuse, allocate, kSerial);
    });
    return true;
  }

 private:
  static std::vector<int64_t> values_of(const Tensor& offset) {
    if (offset.get_element_type() == ov::element::i32) {
      const int32_t* values = offset.data<const int32_t>();
      return {values, values + offset.get_size()};
    }
    const int64_t* values = offset.data<const int64_t>();
    return {values, values + offset.get_size()};
  }
};

using ov::frontend::NodeContext;

ov::OutputVector inputs_of(const NodeContext& node) {
  ov::OutputVector inputs;
  for (size_t i = 0; i < node.get_input_size(); ++i) {
    const ov::Output<ov::Node> input = node.get_input(static_cast<int>(i));
    // An input with the name "" is a node without a value; all that the course's operators may omit are at the end.
    if (std::string(input.get_node()->get_type_name()) != "NullNode") inputs.push_back(input);
  }
  return inputs;
}

template <typename Convert>
std::shared_ptr<ov::Extension> from_onnx(const char* name, const Convert& convert) {
  return std::make_shared<ov::frontend::onnx::ConversionExtension>(
      name, "oplab", [convert](const NodeContext& node) { return convert(node)->outputs(); });
}

}  // namespace

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({
    std::make_shared<ov::OpExtension<MyAdd>>(),
    std::make_shared<ov::OpExtension<DynamicResize>>(),
    std::make_shared<ov::OpExtension<KNNQuery>>(),
    from_onnx("MyAdd",
              [](const NodeContext& node) {
                return std::make_shared<MyAdd>(inputs_of(node), node.get_attribute<float>("alpha", 3),
                                               node.get_attribute<float>("beta", 2));
              }),
    from_onnx("DynamicResize",
              [](const NodeContext& node) { return std::make_shared<DynamicResize>(inputs_of(node)); }),
    from_onnx("KNNQuery",
              [](const NodeContext& node) {
                if (!node.has_attribute("nsample")) refusing("KNNQuery")("the attribute nsample is missing.");
                return std::make_shared<KNNQuery>(inputs_of(node), node.get_attribute<int64_t>("nsample"));
              }),
}));
