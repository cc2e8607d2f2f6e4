// Chapter 14: the 8 nearest neighbours of each of n points, as five operators of the domain
// `lesson`, one for each step of the lesson.
#include <algorithm>
#include <cmath>
#include <limits>

#include "oplab_kernel.h"

namespace {

using oplab::Tensor;
constexpr int64_t K = 8;

// The K nearest so far, the nearest first; of two at one distance, the lower index.
struct Best {
  void offer(float square, int32_t index) {
    if (!less(square, index, K - 1)) return;
    int64_t place = K - 1;
    for (; place > 0 && less(square, index, place - 1); --place) {
      squares[place] = squares[place - 1];
      indices[place] = indices[place - 1];
    }
    squares[place] = square;
    indices[place] = index;
  }
  bool less(float square, int32_t index, int64_t place) const {
    return square < squares[place] || (square == squares[place] && index < indices[place]);
  }
  void clear() {
    std::fill_n(squares, K, std::numeric_limits<float>::infinity());
    std::fill_n(indices, K, std::numeric_limits<int32_t>::max());
  }
  float squares[K];
  int32_t indices[K];
};

inline float square_of(const float* p, const float* q) {
  const float dx = p[0] - q[0], dy = p[1] - q[1], dz = p[2] - q[2];
  return dx * dx + dy * dy + dz * dz;
}

struct Naive {
  static void run(OrtKernelContext*, const float* xyz, int64_t n, int32_t* idx) {
    std::vector<std::pair<float, int32_t>> all(n);
    for (int64_t q = 0; q < n; ++q) {
      for (int64_t i = 0; i < n; ++i) {
        all[i] = {square_of(xyz + 3 * i, xyz + 3 * q), static_cast<int32_t>(i)};
      }
      std::partial_sort(all.begin(), all.begin() + K, all.end());
      for (int64_t k = 0; k < K; ++k) idx[q * K + k] = all[k].second;
    }
  }
};

struct Hoisted {
  static void run(OrtKernelContext*, const float* xyz, int64_t n, int32_t* idx) {
    for (int64_t q = 0; q < n; ++q) {
      Best best;
      best.clear();
      for (int64_t i = 0; i < n; ++i) {
        best.offer(square_of(xyz + 3 * i, xyz + 3 * q), static_cast<int32_t>(i));
      }
      std::copy_n(best.indices, K, idx + q * K);
    }
  }
};

struct Columns {  // the points in three arrays, followed by eight points that are never found
  explicit Columns(int64_t n) {
    for (auto& axis : at) axis.assign(n + 8, std::numeric_limits<float>::infinity());
  }
  void set(int64_t place, const float* p) {
    for (int d = 0; d < 3; ++d) at[d][place] = p[d];
  }
  void offer(int64_t begin, int64_t end, const float* q, const int32_t* index,
             Best& best) const {
    for (; begin < end; begin += 8) {
      float square[8];
      for (int i = 0; i < 8; ++i) {
        const float dx = at[0][begin + i] - q[0], dy = at[1][begin + i] - q[1];
        const float dz = at[2][begin + i] - q[2];
        square[i] = dx * dx + dy * dy + dz * dz;
      }
      float least = square[0];
      for (int i = 1; i < 8; ++i) least = std::min(least, square[i]);
      if (least > best.squares[K - 1]) continue;
      for (int64_t i = 0; i < std::min<int64_t>(8, end - begin); ++i) {
        best.offer(square[i], index[begin + i]);
      }
    }
  }
  std::vector<float> at[3];
};

struct Vectorised {
  static void run(OrtKernelContext*, const float* xyz, int64_t n, int32_t* idx) {
    Columns columns(n);
    std::vector<int32_t> index(n);
    for (int64_t i = 0; i < n; ++i) {
      columns.set(i, xyz + 3 * i);
      index[i] = static_cast<int32_t>(i);
    }
    for (int64_t q = 0; q < n; ++q) {
      Best best;
      best.clear();
      columns.offer(0, n, xyz + 3 * q, index.data(), best);
      std::copy_n(best.indices, K, idx + q * K);
    }
  }
};

struct Voxels {  // of a cube from 0 to 1, about two points in each; the points voxel by voxel
  Voxels(const float* xyz, int64_t n) : columns(n), index(n) {
    layers = std::max<int64_t>(1, static_cast<int64_t>(std::cbrt(static_cast<double>(n) / 2)));
    std::vector<int64_t> voxel(n);
    start.assign(layers * layers * layers + 1, 0);
    for (int64_t i = 0; i < n; ++i) {
      const float* p = xyz + 3 * i;
      voxel[i] = (layer(p[2]) * layers + layer(p[1])) * layers + layer(p[0]);
      ++start[voxel[i] + 1];
    }
    for (size_t v = 1; v < start.size(); ++v) start[v] += start[v - 1];  // counts to places
    std::vector<int64_t> next(start.begin(), start.end() - 1);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t place = next[voxel[i]]++;
      columns.set(place, xyz + 3 * i);
      index[place] = static_cast<int32_t>(i);
    }
  }

  // A point outside of the cube belongs to the layer at its border.
  int64_t layer(float coordinate) const {
    coordinate = std::min(1.0f, std::max(0.0f, coordinate));
    return std::min(layers - 1,
                    static_cast<int64_t>(coordinate * static_cast<float>(layers)));
  }

  // Offers the points of some neighbouring voxels of one row.
  void row(int64_t z, int64_t y, int64_t from, int64_t to, const float* q, Best& best) const {
    if (from >= layers || to < 0) return;
    const int64_t* voxel = &start[(z * layers + y) * layers];
    const int64_t begin = voxel[std::max<int64_t>(from, 0)];
    const int64_t end = voxel[std::min(to, layers - 1) + 1];
    columns.offer(begin, end, q, index.data(), best);
  }

  void search(const float* q, Best& best) const {
    const int64_t hx = layer(q[0]), hy = layer(q[1]), hz = layer(q[2]);
    const double side = 1 / static_cast<double>(layers) * (1 - 1e-5);  // borders are rounded
    for (int64_t r = 0; r < layers; ++r) {
      const double reach = static_cast<double>(r - 1) * side;
      if (r > 1 && reach * reach > best.squares[K - 1]) return;
      for (int64_t z = std::max<int64_t>(hz - r, 0); z <= std::min(hz + r, layers - 1); ++z) {
        for (int64_t y = std::max<int64_t>(hy - r, 0); y <= std::min(hy + r, layers - 1); ++y) {
          const bool whole = std::abs(z - hz) == r || std::abs(y - hy) == r;
          row(z, y, hx - r, whole ? hx + r : hx - r, q, best);
          if (!whole) row(z, y, hx + r, hx + r, q, best);
        }
      }
    }
  }

  int64_t layers;
  std::vector<int64_t> start;
  Columns columns;
  std::vector<int32_t> index;
};

template <bool parallel>
struct Grid {
  static void run(OrtKernelContext* context, const float* xyz, int64_t n, int32_t* idx) {
    const Voxels voxels(xyz, n);
    oplab::parallel_for(context, n, parallel ? 256 : n, [&](int64_t begin, int64_t end) {
      for (int64_t place = begin; place < end; ++place) {
        const int64_t q = voxels.index[place];
        Best best;
        best.clear();
        voxels.search(xyz + 3 * q, best);
        std::copy_n(best.indices, K, idx + q * K);
      }
    });
  }
};

template <typename Step>
struct Nearest {
  Nearest(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& xyz,
                      Tensor<int32_t>& idx) {
    const int64_t n = xyz.Shape()[0];
    Step::run(context, xyz.Data(), n, idx.Allocate({n, K}));
    return Ort::Status{nullptr};
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Nearest<Naive>>(made, "Naive");
    oplab::add<Nearest<Hoisted>>(made, "Hoisted");
    oplab::add<Nearest<Vectorised>>(made, "Vectorised");
    oplab::add<Nearest<Grid<false>>>(made, "Grid");
    oplab::add<Nearest<Grid<true>>>(made, "Parallel");
    return made;
  });
}
