// What the operators of this library share.
//
// The checks are not here: STD_TORCH_CHECK puts the function and the file in which it is written into its message.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/Dispatch_v2.h>

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "../common/text.h"

namespace oplab {

using torch::headeronly::ScalarType;
using torch::headeronly::toString;
using torch::stable::Tensor;

// The parallel_for(size, piece, work) for functions that PyTorch's and ONNX Runtime's operators share.
inline constexpr auto kParallelFor = [](int64_t size, int64_t piece, const auto& work) {
  torch::stable::parallel_for(0, size, piece, work);
};

// Half and bfloat16 are computed in float, as PyTorch's own elementwise operators do.
template <typename T>
using opmath_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

inline std::vector<int64_t> shape_of(const Tensor& t) { return {t.sizes().begin(), t.sizes().end()}; }
inline std::optional<std::vector<int64_t>> shape_of(const std::optional<Tensor>& t) {
  return t ? std::optional(shape_of(*t)) : std::nullopt;
}
inline std::string shape_text(const Tensor& t) { return shape_text(t.sizes()); }

inline std::optional<Tensor> contiguous(const std::optional<Tensor>& t) {
  return t ? std::optional<Tensor>(torch::stable::contiguous(*t)) : std::nullopt;
}

inline bool same_shape(const Tensor& a, const Tensor& b) {
  const auto x = a.sizes(), y = b.sizes();
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

inline bool is_float_or_double(const Tensor& t) {
  return t.scalar_type() == ScalarType::Float || t.scalar_type() == ScalarType::Double;
}

// The dtypes of the elementwise operators.
inline bool is_floating_point(const Tensor& t) {
  return is_float_or_double(t) || t.scalar_type() == ScalarType::Half || t.scalar_type() == ScalarType::BFloat16;
}

}  // namespace oplab
