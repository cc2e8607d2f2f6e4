// The voxels of a cloud of points, as torch_cluster::grid counts them. PyTorch's operator and ONNX Runtime's kernel both call
// this, so that their results and their error messages are the same.
//
// Along dimension k a point has the index trunc((pos[k] - start[k]) / size[k]), and there are
// trunc((end[k] - start[k]) / size[k]) + 1 cells. The index of the first dimension changes fastest.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "simd.h"

namespace oplab {

// n points of d coordinates; size, start and end have d values. start and end may be null: then they are the points' bounds.
template <typename T>
struct Cloud {
  const T* pos;
  int64_t n, d;
  const T *size, *start, *end;
};

namespace voxels {

// Converts a coordinate into the index along one dimension.
template <typename T>
struct Axis {
  T start, size;
  int64_t stride;  // cells between two neighbours along this dimension
};

// Sets `cell` to trunc(x). Returns false if that does not fit into int64, also for NaN.
template <typename T>
bool to_cell(T x, int64_t& cell) {
  constexpr T limit = 9223372036854775808.0;  // 2**63, exact in both types
  if (!(x > -limit && x < limit)) return false;
  cell = static_cast<int64_t>(x);
  return true;
}

template <typename T>
bool to_cluster(const T* point, const std::vector<Axis<T>>& axes, int64_t& cluster) {
  int64_t sum = 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t cell;
    if (!to_cell((point[k] - axes[k].start) / axes[k].size, cell)) return false;
    if (__builtin_mul_overflow(cell, axes[k].stride, &cell) || __builtin_add_overflow(sum, cell, &sum)) return false;
  }
  cluster = sum;
  return true;
}

template <typename T, typename Refuse>
void check_finite(const char* name, const T* values, int64_t count, const Refuse& refuse) {
  for (int64_t k = 0; values && k < count; ++k) {
    if (!std::isfinite(values[k])) refuse(name, " must be finite, but ", name, "[", k, "] is ", values[k], ".");
  }
}

template <typename T, typename Refuse>
void check(const Cloud<T>& c, const Refuse& refuse) {
  check_finite("size", c.size, c.d, refuse);
  check_finite("start", c.start, c.d, refuse);
  check_finite("end", c.end, c.d, refuse);
  for (int64_t k = 0; k < c.d; ++k) {
    if (!(c.size[k] > 0)) refuse("size must be positive, but size[", k, "] is ", c.size[k], ".");
  }
}

constexpr int64_t kPiece = 8192;  // points
constexpr int kMostSmall = 4;     // up to so many dimensions have a specialised loop

// The minimum and the maximum of all points along each dimension.
template <typename T>
struct Bounds {
  std::vector<T> least, greatest;
};

// Points are read as one row of numbers, several points in one turn: as many as fill some registers.
template <typename T, typename Refuse, typename ParallelFor>
Bounds<T> bounds(const Cloud<T>& c, const Refuse& refuse, const ParallelFor& parallel_for) {
  const int64_t width = (64 + c.d - 1) / c.d * c.d, pieces = (c.n + kPiece - 1) / kPiece;
  std::vector<T> least(pieces * width), greatest(pieces * width);
  std::atomic<bool> all_finite{true};
  const auto look_at = [&](int64_t piece) {
    const int64_t begin = piece * kPiece * c.d, end = std::min((piece + 1) * kPiece, c.n) * c.d;
    T *low = &least[piece * width], *high = &greatest[piece * width];
    for (int64_t j = 0; j < width; ++j) low[j] = high[j] = c.pos[begin + j % c.d];
    int odd = 0;
    for (int64_t i = begin; i < end; i += width) {
      const int64_t count = std::min(width, end - i);
      const T* pos = c.pos + i;
      for (int64_t j = 0; j < count; ++j) {
        low[j] = pos[j] < low[j] ? pos[j] : low[j];
        high[j] = pos[j] > high[j] ? pos[j] : high[j];
        odd |= !(std::abs(pos[j]) <= std::numeric_limits<T>::max());
      }
    }
    if (odd) all_finite = false;  // the loop below finds the first one, whatever the number of threads
  };
  // A loop over pieces, because PyTorch chooses the bounds of each call itself.
  parallel_for(pieces, int64_t{1}, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) look_at(piece);
  });
  for (int64_t i = 0; !all_finite && i < c.n * c.d; ++i) {
    if (!std::isfinite(c.pos[i])) {
      refuse("pos must be finite, but coordinate ", i % c.d, " of point ", i / c.d, " is ", c.pos[i], ".");
    }
  }
  Bounds<T> all{{c.pos, c.pos + c.d}, {c.pos, c.pos + c.d}};
  for (int64_t j = 0; j < pieces * width; ++j) {
    const int64_t k = j % c.d;
    all.least[k] = std::min(all.least[k], least[j]);
    all.greatest[k] = std::max(all.greatest[k], greatest[j]);
  }
  return all;
}

template <typename T, typename Refuse>
std::vector<Axis<T>> make_axes(const Cloud<T>& c, const Bounds<T>& bounds, const Refuse& refuse) {
  std::vector<Axis<T>> axes(c.d);
  int64_t stride = 1;
  for (int64_t k = 0; k < c.d; ++k) {
    const T from = c.start ? c.start[k] : bounds.least[k];
    const T to = c.end ? c.end[k] : bounds.greatest[k];
    axes[k] = {from, c.size[k], stride};
    const T last = (to - from) / c.size[k];
    if (!(last > -1)) {
      refuse("end must not be a cell or more below start, but along dimension ", k, " start is ", from,
             c.start ? "" : " (the minimum of pos)", ", end is ", to, c.end ? "" : " (the maximum of pos)",
             " and size is ", c.size[k], ".");
    }
    if (k + 1 == c.d) break;  // the number of cells of the last dimension is not needed
    int64_t cells;
    if (!to_cell(last, cells) || __builtin_add_overflow(cells, 1, &cells) ||
        __builtin_mul_overflow(stride, cells, &stride)) {
      refuse("size is too small: from start to end there are more cells than int64 can count.");
    }
  }
  return axes;
}

// Whether the number of each cell, and each intermediate result, fits into int32. Rounding is monotonic: the cell of a point
// is between those of the minimum and the maximum.
template <typename T>
bool numbers_are_small(const std::vector<Axis<T>>& axes, const Bounds<T>& bounds) {
  constexpr double limit = 1 << 30;
  double most = 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    const T low = (bounds.least[k] - axes[k].start) / axes[k].size, high = (bounds.greatest[k] - axes[k].start) / axes[k].size;
    const double cells = std::max(std::abs(static_cast<double>(low)), std::abs(static_cast<double>(high)));
    if (!(cells < limit) || static_cast<double>(axes[k].stride) > limit) return false;
    most += cells * static_cast<double>(axes[k].stride);
  }
  return most < limit;
}

// Small numbers need no check for overflow, so the compiler vectorises over points. `dimensions` is d, known at compile time. A
// division and a difference are bit-identical with every instruction set.
template <int dimensions>
struct NumberSmall {
  template <Simd, typename T>
  [[gnu::always_inline]] static void run(const T* pos, const std::vector<Axis<T>>& axes, int64_t count, int64_t* cluster) {
    T start[dimensions], size[dimensions];
    int32_t stride[dimensions];
    for (int k = 0; k < dimensions; ++k) {
      start[k] = axes[k].start, size[k] = axes[k].size, stride[k] = static_cast<int32_t>(axes[k].stride);
    }
    for (int64_t i = 0; i < count; ++i) {
      int32_t sum = 0;
      for (int k = 0; k < dimensions; ++k) {
        sum += static_cast<int32_t>((pos[i * dimensions + k] - start[k]) / size[k]) * stride[k];
      }
      cluster[i] = sum;
    }
  }
};

template <typename T>
void number_small(Simd simd, const T* pos, const std::vector<Axis<T>>& axes, int64_t count, int64_t* cluster) {
  switch (axes.size()) {
    case 1:
      return run_vectorised<NumberSmall<1>>(simd, pos, axes, count, cluster);
    case 2:
      return run_vectorised<NumberSmall<2>>(simd, pos, axes, count, cluster);
    case 3:
      return run_vectorised<NumberSmall<3>>(simd, pos, axes, count, cluster);
    default:
      return run_vectorised<NumberSmall<kMostSmall>>(simd, pos, axes, count, cluster);
  }
}

}  // namespace voxels

// Writes the number of each point's voxel to cluster[0 … n).
//   simd                                 the instruction set; the numbers do not depend on it
//   refuse(args...)                      throws an error with the message make_string(args...)
//   parallel_for(size, piece, work)      calls work(begin, end) for the pieces of [0, size)
template <typename T, typename Refuse, typename ParallelFor>
void number_points(Simd simd, const Cloud<T>& c, int64_t* cluster, const Refuse& refuse, const ParallelFor& parallel_for) {
  voxels::check(c, refuse);
  if (c.n == 0) return;
  const voxels::Bounds<T> bounds = voxels::bounds(c, refuse, parallel_for);
  const std::vector<voxels::Axis<T>> axes = voxels::make_axes(c, bounds, refuse);
  if (c.d <= voxels::kMostSmall && voxels::numbers_are_small(axes, bounds)) {
    parallel_for(c.n, voxels::kPiece, [&](int64_t begin, int64_t end) {
      voxels::number_small(simd, c.pos + begin * c.d, axes, end - begin, cluster + begin);
    });
    return;
  }
  std::atomic<bool> all_fit{true};
  parallel_for(c.n, voxels::kPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!voxels::to_cluster(c.pos + i * c.d, axes, cluster[i])) all_fit = false;  // the loop below finds the first one
    }
  });
  for (int64_t i = 0; !all_fit && i < c.n; ++i) {
    if (!voxels::to_cluster(c.pos + i * c.d, axes, cluster[i])) {
      refuse("pos is too far from start: the cell of point ", i, " has a number that int64 cannot hold.");
    }
  }
}

}  // namespace oplab
