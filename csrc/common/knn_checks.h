// What every kernel of KNNQuery refuses, for PyTorch and ONNX Runtime, on the CPU and on the GPU. `refuse(args...)` throws an error
// with the message make_string(args...).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "text.h"

namespace oplab {
namespace knn {

using Shape = std::vector<int64_t>;

template <typename Refuse>
void check_points(const char* name, const Shape& shape, const Refuse& refuse) {
  if (shape.size() != 2 || shape[1] != 3) {
    refuse(name, " must have the shape [n, 3], but its shape is ", shape_text(shape), ".");
  }
}

template <typename Refuse>
void check_offset_shape(const char* name, const Shape& shape, const Refuse& refuse) {
  if (shape.size() != 1) refuse(name, " must have one dimension, but its shape is ", shape_text(shape), ".");
}

template <typename Refuse>
void check_nsample(int64_t nsample, const Refuse& refuse) {
  if (nsample < 1) refuse("nsample must be at least 1, but it is ", nsample, ".");
}

// Checks what does not depend on the tensors' values.
template <typename Refuse>
void check_shapes(int64_t nsample, const Shape& xyz, const Shape& offset, const std::optional<Shape>& new_xyz,
                  const std::optional<Shape>& new_offset, const Refuse& refuse) {
  check_nsample(nsample, refuse);
  check_points("xyz", xyz, refuse);
  check_offset_shape("offset", offset, refuse);
  if (new_xyz.has_value() != new_offset.has_value()) {
    refuse("new_xyz and new_offset must come together, but only ", new_xyz ? "new_xyz" : "new_offset", " is given.");
  }
  if (new_xyz) {
    check_points("new_xyz", *new_xyz, refuse);
    check_offset_shape("new_offset", *new_offset, refuse);
    if (*new_offset != offset) {  // both have one dimension
      refuse("new_offset must have one value for each of offset's ", offset[0], " batches, but it has ",
             (*new_offset)[0], ".");
    }
  }
  if (xyz[0] >= std::numeric_limits<int32_t>::max()) {
    refuse("xyz must have fewer than 2**31 - 1 points, which idx can number, but it has ", xyz[0], ".");
  }
}

// `name` is the name of `offset`, `points` that of the tensor of n points which it divides into batches.
template <typename Refuse>
void check_offset(const char* name, const std::vector<int64_t>& offset, const char* points, int64_t n,
                  const Refuse& refuse) {
  for (size_t i = 0; i < offset.size(); ++i) {
    if (offset[i] < 0) refuse(name, " must not be negative, but ", name, "[", i, "] is ", offset[i], ".");
    if (i > 0 && offset[i] < offset[i - 1]) {
      refuse(name, " must not decrease, but ", name, "[", i - 1, "] is ", offset[i - 1], " and ", name, "[", i, "] is ",
             offset[i], ".");
    }
    if (offset[i] > n) {
      refuse(name, " must not exceed the ", n, " points of ", points, ", but ", name, "[", i, "] is ", offset[i], ".");
    }
  }
  if (offset.empty() && n > 0) refuse(name, " must end at the ", n, " points of ", points, ", but it is empty.");
  if (!offset.empty() && offset.back() != n) {
    refuse(name, " must end at the ", n, " points of ", points, ", but ", name, "[", offset.size() - 1, "] is ",
           offset.back(), ".");
  }
}

template <typename T, typename Refuse>
void refuse_coordinate(const char* name, int64_t i, T value, const Refuse& refuse) {
  refuse(name, " must be finite, but coordinate ", i % 3, " of point ", i / 3, " is ", value, ".");
}

template <typename T, typename Refuse>
void check_finite(const char* name, const T* points, int64_t n, const Refuse& refuse) {
  for (int64_t i = 0; i < 3 * n; ++i) {
    if (!std::isfinite(points[i])) refuse_coordinate(name, i, points[i], refuse);
  }
}

// The offset must have been checked. In a cloud without points nsample has no batch to fit: all rows are padding.
template <typename Refuse>
void check_largest(int64_t nsample, int64_t n, const std::vector<int64_t>& offset, const Refuse& refuse) {
  int64_t largest = 0;
  for (size_t b = 0; b < offset.size(); ++b) largest = std::max(largest, offset[b] - (b ? offset[b - 1] : 0));
  if (n > 0 && nsample > largest) {
    refuse("nsample must not be larger than the largest batch, but nsample is ", nsample, " and the largest batch has ",
           largest, " points.");
  }
}

}  // namespace knn
}  // namespace oplab
