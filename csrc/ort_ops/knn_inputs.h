// What the kernels of KNNQuery share: their inputs, and the shapes of their outputs.
#pragma once

#include "../common/knn_checks.h"
#include "oplab_kernel.h"

namespace oplab {

template <typename Input>
std::optional<knn::Shape> shape_of(const std::optional<const Input*>& input) {
  return input ? std::optional<knn::Shape>((*input)->Shape()) : std::nullopt;
}

template <typename Offset>
std::vector<int64_t> values_of(const Tensor<Offset>& offset) {
  const Offset* values = offset.Data();
  return {values, values + offset.NumberOfElement()};
}

inline void infer_knn_shapes(Shapes& shapes) {
  const bool is_self = shapes.input_count() < 3 || shapes.type(2) == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const Shapes::Dims queries = shapes.dims(is_self ? 0 : 2);
  const int64_t nsample = shapes.int_attribute("nsample").value_or(0);
  if (queries.empty() || nsample < 1) return;
  shapes.set(0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, {queries[0], {nsample, ""}});
  shapes.set(1, shapes.type(0), {queries[0], {nsample, ""}});
}

}  // namespace oplab
