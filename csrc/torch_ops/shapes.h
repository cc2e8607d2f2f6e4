// Shapes of stable tensors: compared, and written the way Python prints them.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <string>

namespace oplab {

inline bool same_shape(const torch::stable::Tensor& a, const torch::stable::Tensor& b) {
  const auto x = a.sizes(), y = b.sizes();
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

inline std::string shape_text(const torch::stable::Tensor& t) {
  std::string text = "[";
  for (int64_t size : t.sizes()) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

}  // namespace oplab
