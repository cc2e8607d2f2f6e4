// oplab::Grid(pos, size, start?, end?) -> cluster, the number of the voxel that each point lies in, as torch_cluster::grid
// counts. For float and double.
//
// Along dimension k a point has the index trunc((pos[k] - start[k]) / size[k]), and there are
// trunc((end[k] - start[k]) / size[k]) + 1 cells. The first dimension runs fastest.
#include <atomic>
#include <cmath>
#include <sstream>

#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

template <typename... Words>
Ort::Status refuse(const Words&... words) {
  std::ostringstream sentence;
  (sentence << "Grid: " << ... << words);
  return invalid(sentence.str());
}

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

template <typename T>
struct Grid {
  using Input = Tensor<T>;
  using Optional = std::optional<const Tensor<T>*>;

  Grid(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(OrtKernelContext* context, const Input& pos, const Input& size, Optional start, Optional end,
                      Tensor<int64_t>& cluster) {
    const std::vector<int64_t>& shape = pos.Shape();
    if (shape.empty()) return refuse("pos must have at least one dimension, but it is a scalar.");
    int64_t d = 1;  // all dimensions but the first are a point's coordinates
    for (size_t k = 1; k < shape.size(); ++k) d *= shape[k];
    if (d == 0) {
      return refuse("pos must have at least one coordinate for each point, but its shape is ", shape_text(shape), ".");
    }
    for (const auto& [name, given] : {std::pair{"size", Optional{&size}}, {"start", start}, {"end", end}}) {
      if (given && (*given)->Shape() != std::vector<int64_t>{d}) {
        return refuse(name, " must have one value for each of pos's ", d, " coordinates, but its shape is ",
                      shape_text((*given)->Shape()), ".");
      }
    }

    const int64_t n = shape[0];
    const T* p = pos.Data();
    const T* s = size.Data();
    for (int64_t k = 0; k < d; ++k) {
      if (!(s[k] > 0 && std::isfinite(s[k]))) {
        return refuse("size must be positive and finite, but size[", k, "] is ", s[k], ".");
      }
    }
    for (int64_t i = 0; i < n * d; ++i) {
      if (!std::isfinite(p[i])) {
        return refuse("pos must be finite, but coordinate ", i % d, " of point ", i / d, " is ", p[i], ".");
      }
    }
    for (const auto& [name, given] : {std::pair{"start", start}, {"end", end}}) {
      for (int64_t k = 0; given && k < d; ++k) {
        const T value = (*given)->Data()[k];
        if (!std::isfinite(value)) return refuse(name, " must be finite, but ", name, "[", k, "] is ", value, ".");
      }
    }

    int64_t* q = cluster.Allocate({n});
    if (n == 0) return Ort::Status{nullptr};
    std::vector<Axis<T>> axes(d);
    int64_t stride = 1;
    for (int64_t k = 0; k < d; ++k) {
      T low = p[k], high = p[k];  // what start and end are where they are not given
      for (int64_t i = 1; i < n; ++i) {
        low = std::min(low, p[i * d + k]);
        high = std::max(high, p[i * d + k]);
      }
      if (start) low = (*start)->Data()[k];
      if (end) high = (*end)->Data()[k];

      axes[k] = {low, s[k], stride};
      const T last = (high - low) / s[k];
      if (!(last > -1)) {
        return refuse("end must not lie a cell or more below start, but along dimension ", k, " start is ", low,
                      start ? "" : " (the least of pos)", ", end is ", high, end ? "" : " (the greatest of pos)",
                      " and size is ", s[k], ".");
      }
      if (k + 1 == d) break;  // how many cells the last dimension has is of no account
      int64_t cells;
      if (!to_cell(last, cells) || __builtin_add_overflow(cells, 1, &cells) ||
          __builtin_mul_overflow(stride, cells, &stride)) {
        return refuse("size is too small: from start to end there are more cells than int64 can count.");
      }
    }

    std::atomic<bool> all_fit{true};
    parallel_for(context, n, 8192, [&](int64_t begin, int64_t stop) {
      for (int64_t i = begin; i < stop; ++i) {
        if (!to_cluster(p + i * d, axes, q[i])) all_fit = false;
      }
    });
    for (int64_t i = 0; !all_fit && i < n; ++i) {
      if (!to_cluster(p + i * d, axes, q[i])) {
        return refuse("pos is too far from start: the cell of point ", i, " has a number that int64 cannot hold.");
      }
    }
    return Ort::Status{nullptr};
  }
};

}  // namespace

void add_grid(Ort::CustomOpDomain& domain) {
  static const Op<Grid<float>> for_float{"Grid"};
  static const Op<Grid<double>> for_double{"Grid"};
  domain.Add(&for_float);
  domain.Add(&for_double);
}

}  // namespace oplab
