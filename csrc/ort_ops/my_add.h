// What the kernels of MyAdd share: the attributes, and what they refuse.
#pragma once

#include "oplab_kernel.h"

namespace oplab {

inline float alpha_of(const OrtKernelInfo* info) { return float_attribute(info, "alpha", 3.0f); }
inline float beta_of(const OrtKernelInfo* info) { return float_attribute(info, "beta", 2.0f); }

inline void check_same_shape(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a != b) refuse("a and b must have the same shape, but a is ", shape_text(a), " and b is ", shape_text(b), ".");
}

}  // namespace oplab
