// oplab::grid(pos, size, start, end) -> the number of the voxel that each point lies in, as torch_cluster::grid counts.
//
// Along dimension k a point has the index trunc((pos[k] - start[k]) / size[k]), and there are
// trunc((end[k] - start[k]) / size[k]) + 1 cells. The first dimension runs fastest.
#include "operators.h"

#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/Dispatch_v2.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "shapes.h"

namespace oplab {
namespace {

using torch::headeronly::ScalarType;
using torch::headeronly::toString;
using torch::stable::Tensor;

// What a point's index along one dimension is computed from.
template <typename T>
struct Axis {
  T start, size;
  int64_t stride;  // cells between two neighbours along this dimension
};

// trunc(x) where it fits into int64. It is false for NaN too.
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

// One finite value for each of a point's d coordinates. `name` is for the message.
template <typename T>
std::vector<T> values(const char* name, const Tensor& given) {
  const Tensor flat = torch::stable::contiguous(given);
  const T* p = flat.const_data_ptr<T>();
  for (int64_t k = 0; k < flat.numel(); ++k) {
    STD_TORCH_CHECK(std::isfinite(p[k]), name, " must be finite, but ", name, "[", k, "] is ", p[k], ".");
  }
  return {p, p + flat.numel()};
}

// `low` and `high` are empty where start and end are not given: then the points' own bounds take their place.
template <typename T>
std::vector<Axis<T>> lay_out(const T* p, int64_t n, const std::vector<T>& size, const std::vector<T>& low,
                             const std::vector<T>& high) {
  const auto d = static_cast<int64_t>(size.size());
  std::vector<T> least(p, p + d), greatest(p, p + d);
  for (int64_t i = 1; i < n && (low.empty() || high.empty()); ++i) {
    for (int64_t k = 0; k < d; ++k) {
      least[k] = std::min(least[k], p[i * d + k]);
      greatest[k] = std::max(greatest[k], p[i * d + k]);
    }
  }
  std::vector<Axis<T>> axes(d);
  int64_t stride = 1;
  for (int64_t k = 0; k < d; ++k) {
    const T from = low.empty() ? least[k] : low[k], to = high.empty() ? greatest[k] : high[k];
    axes[k] = {from, size[k], stride};
    const T last = (to - from) / size[k];
    STD_TORCH_CHECK(last > -1, "end must not lie a cell or more below start, but along dimension ", k, " start is ",
                    from, low.empty() ? " (the least of pos)" : "", ", end is ", to,
                    high.empty() ? " (the greatest of pos)" : "", " and size is ", size[k], ".");
    if (k + 1 == d) break;  // how many cells the last dimension has is of no account
    int64_t cells;
    STD_TORCH_CHECK(to_cell(last, cells) && !__builtin_add_overflow(cells, 1, &cells) &&
                        !__builtin_mul_overflow(stride, cells, &stride),
                    "size is too small: from start to end there are more cells than int64 can count.");
  }
  return axes;
}

template <typename T>
void number_points(const Tensor& pos, const Tensor& size, const std::optional<Tensor>& start,
                   const std::optional<Tensor>& end, Tensor& cluster) {
  const std::vector<T> cell = values<T>("size", size);
  const std::vector<T> low = start ? values<T>("start", *start) : std::vector<T>();
  const std::vector<T> high = end ? values<T>("end", *end) : std::vector<T>();
  const auto d = static_cast<int64_t>(cell.size());
  for (int64_t k = 0; k < d; ++k) {
    STD_TORCH_CHECK(cell[k] > 0, "size must be positive, but size[", k, "] is ", cell[k], ".");
  }
  const Tensor flat = torch::stable::contiguous(pos);
  const T* p = flat.const_data_ptr<T>();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    STD_TORCH_CHECK(std::isfinite(p[i]), "pos must be finite, but coordinate ", i % d, " of point ", i / d, " is ",
                    p[i], ".");
  }

  const int64_t n = cluster.numel();
  if (n == 0) return;
  const std::vector<Axis<T>> axes = lay_out(p, n, cell, low, high);
  int64_t* q = cluster.mutable_data_ptr<int64_t>();
  std::atomic<bool> all_fit{true};
  torch::stable::parallel_for(0, n, 8192, [&](int64_t begin, int64_t stop) {
    for (int64_t i = begin; i < stop; ++i) {
      if (!to_cluster(p + i * d, axes, q[i])) all_fit = false;  // an exception may not leave this loop
    }
  });
  for (int64_t i = 0; !all_fit && i < n; ++i) {
    STD_TORCH_CHECK(to_cluster(p + i * d, axes, q[i]), "pos is too far from start: the cell of point ", i,
                    " has a number that int64 cannot hold.");
  }
}

// size, start and end have one value for each of pos's d coordinates. `name` is for the message.
void check_along(const Tensor& pos, int64_t d, const char* name, const Tensor& t) {
  STD_TORCH_CHECK(t.dim() == 1 && t.size(0) == d, name, " must have one value for each of pos's ", d,
                  " coordinates, but its shape is ", shape_text(t), ".");
  STD_TORCH_CHECK(t.scalar_type() == pos.scalar_type(), name, " must have pos's dtype, but ", name, " is ",
                  toString(t.scalar_type()), " and pos is ", toString(pos.scalar_type()), ".");
}

}  // namespace

Tensor grid(const Tensor& pos, const Tensor& size, const std::optional<Tensor>& start,
            const std::optional<Tensor>& end) {
  STD_TORCH_CHECK(pos.dim() >= 1, "pos must have at least one dimension, but it is a scalar.");
  int64_t d = 1;  // all dimensions but the first are a point's coordinates
  for (int64_t k = 1; k < pos.dim(); ++k) {
    STD_TORCH_CHECK(!__builtin_mul_overflow(d, pos.size(k), &d),
                    "pos has too many coordinates for each point: its shape is ", shape_text(pos), ".");
  }
  STD_TORCH_CHECK(d >= 1, "pos must have at least one coordinate for each point, but its shape is ", shape_text(pos),
                  ".");
  STD_TORCH_CHECK(pos.scalar_type() == ScalarType::Float || pos.scalar_type() == ScalarType::Double,
                  "pos must be float32 or float64, but it is ", toString(pos.scalar_type()), ".");
  check_along(pos, d, "size", size);
  if (start) check_along(pos, d, "start", *start);
  if (end) check_along(pos, d, "end", *end);

  Tensor cluster = torch::stable::new_empty(pos, {pos.size(0)}, ScalarType::Long);
  THO_DISPATCH_V2(pos.scalar_type(), "grid",
                  AT_WRAP([&] { number_points<scalar_t>(pos, size, start, end, cluster); }), ScalarType::Float,
                  ScalarType::Double);
  return cluster;
}

}  // namespace oplab
