// oplab::Grid(pos, size, start?, end?) -> cluster, the number of the voxel that each point lies in, as torch_cluster::grid
// counts. For float and double.
//
// Along dimension k a point has the index trunc((pos[k] - start[k]) / size[k]), and there are
// trunc((end[k] - start[k]) / size[k]) + 1 cells. The first dimension runs fastest.
#include <atomic>
#include <cmath>

#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

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
  using Optional = std::optional<const Tensor<T>*>;

  Grid(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& pos, const Tensor<T>& size, Optional start,
                      Optional end, Tensor<int64_t>& cluster) {
    const int64_t d = coordinates(pos);
    check_along("size", size, d);
    if (start) check_along("start", **start, d);
    if (end) check_along("end", **end, d);

    const int64_t n = pos.Shape()[0];
    const T* p = pos.Data();
    const T* s = values("size", size);
    const T* low = start ? values("start", **start) : nullptr;
    const T* high = end ? values("end", **end) : nullptr;
    for (int64_t k = 0; k < d; ++k) {
      if (!(s[k] > 0)) refuse("size must be positive, but size[", k, "] is ", s[k], ".");
    }
    for (int64_t i = 0; i < n * d; ++i) {
      if (!std::isfinite(p[i])) {
        refuse("pos must be finite, but coordinate ", i % d, " of point ", i / d, " is ", p[i], ".");
      }
    }

    int64_t* q = cluster.Allocate({n});
    if (n == 0) return Ort::Status{nullptr};
    const std::vector<Axis<T>> axes = lay_out(p, n, d, s, low, high);
    std::atomic<bool> all_fit{true};
    parallel_for(context, n, 8192, [&](int64_t begin, int64_t stop) {
      for (int64_t i = begin; i < stop; ++i) {
        if (!to_cluster(p + i * d, axes, q[i])) all_fit = false;  // an exception may not leave this loop
      }
    });
    for (int64_t i = 0; !all_fit && i < n; ++i) {
      if (!to_cluster(p + i * d, axes, q[i])) {
        refuse("pos is too far from start: the cell of point ", i, " has a number that int64 cannot hold.");
      }
    }
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) {
    const Shapes::Dims pos = shapes.dims(0);
    if (!pos.empty()) shapes.set(0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, {pos[0]});
  }

 private:
  // All dimensions of pos but the first are a point's coordinates.
  static int64_t coordinates(const Tensor<T>& pos) {
    const std::vector<int64_t>& shape = pos.Shape();
    if (shape.empty()) refuse("pos must have at least one dimension, but it is a scalar.");
    int64_t d = 1;
    for (size_t k = 1; k < shape.size(); ++k) {
      if (__builtin_mul_overflow(d, shape[k], &d)) {
        refuse("pos has too many coordinates for each point: its shape is ", shape_text(shape), ".");
      }
    }
    if (d == 0) {
      refuse("pos must have at least one coordinate for each point, but its shape is ", shape_text(shape), ".");
    }
    return d;
  }

  // size, start and end have one value for each of pos's d coordinates. `name` is for the message.
  static void check_along(const char* name, const Tensor<T>& given, int64_t d) {
    if (given.Shape() != std::vector<int64_t>{d}) {
      refuse(name, " must have one value for each of pos's ", d, " coordinates, but its shape is ",
             shape_text(given.Shape()), ".");
    }
  }

  static const T* values(const char* name, const Tensor<T>& given) {
    const T* data = given.Data();
    for (int64_t k = 0; k < given.NumberOfElement(); ++k) {
      if (!std::isfinite(data[k])) refuse(name, " must be finite, but ", name, "[", k, "] is ", data[k], ".");
    }
    return data;
  }

  // `low` and `high` are null where start and end are not given: then the points' own bounds take their place.
  static std::vector<Axis<T>> lay_out(const T* p, int64_t n, int64_t d, const T* s, const T* low, const T* high) {
    std::vector<T> least(p, p + d), greatest(p, p + d);
    for (int64_t i = 1; i < n && !(low && high); ++i) {
      for (int64_t k = 0; k < d; ++k) {
        least[k] = std::min(least[k], p[i * d + k]);
        greatest[k] = std::max(greatest[k], p[i * d + k]);
      }
    }
    std::vector<Axis<T>> axes(d);
    int64_t stride = 1;
    for (int64_t k = 0; k < d; ++k) {
      const T from = low ? low[k] : least[k], to = high ? high[k] : greatest[k];
      axes[k] = {from, s[k], stride};
      const T last = (to - from) / s[k];
      if (!(last > -1)) {
        refuse("end must not lie a cell or more below start, but along dimension ", k, " start is ", from,
               low ? "" : " (the least of pos)", ", end is ", to, high ? "" : " (the greatest of pos)",
               " and size is ", s[k], ".");
      }
      if (k + 1 == d) break;  // how many cells the last dimension has is of no account
      int64_t cells;
      if (!to_cell(last, cells) || __builtin_add_overflow(cells, 1, &cells) ||
          __builtin_mul_overflow(stride, cells, &stride)) {
        refuse("size is too small: from start to end there are more cells than int64 can count.");
      }
    }
    return axes;
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
