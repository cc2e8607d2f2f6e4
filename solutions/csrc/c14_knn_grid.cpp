// c14.knn_grid: lab::KNN(xyz float[n,3], offset int64[b]; k)
//               -> idx int32[n,k], dist float[n,k]
//
// For each point, the k nearest points of its own batch, including the
// point itself. offset[i] is the number of points in the batches 0 … i;
// idx is an index into all of xyz. Nearest first, ties to the lower
// index; distances are compared as float dx*dx + dy*dy + dz*dz, and
// dist is the square root. If a batch has fewer than k points, the rest
// of the row is -1 in idx and 0 in dist.
//
// A correct answer passes at any speed. The full score requires 0.9
// times the speed of scipy's cKDTree on one thread, and an
// `oplab::parallel_for` that splits a large input into more than one
// piece. The speed is measured with points that fill a cube evenly; for
// lines, planes, heaps and equal points, the result only has to be
// correct.
// Not allowed (contains the answer): csrc/common/knn*.h,
// csrc/ort_ops/knn_*.
#include "oplab_kernel.h"

#include <cmath>
#include <limits>

namespace {

using oplab::Tensor;

// ANSWER c14.knn_grid
struct Found {
  float square;
  int32_t index;
  bool operator<(const Found& other) const {
    return square < other.square || (square == other.square && index < other.index);
  }
};

// The points of one batch, sorted by voxels: start[v] is the place of voxel v's first point.
struct Voxels {
  Voxels(const float* xyz, int64_t begin, int64_t end) {
    double widest = 0, extent[3];
    for (int d = 0; d < 3; ++d) {
      double high = low[d] = xyz[3 * begin + d];
      for (int64_t i = begin; i < end; ++i) {
        low[d] = std::min<double>(low[d], xyz[3 * i + d]);
        high = std::max<double>(high, xyz[3 * i + d]);
      }
      extent[d] = high - low[d], widest = std::max(widest, extent[d]);
    }
    // Cubes, two points each where they fill their box; a dimension that is thinner than a cube
    // does not count.
    const double target = std::max<double>(1, static_cast<double>(end - begin) / 2);
    side = widest > 0 ? widest / target : 1;
    for (int used = 3; used > 0; --used) {
      double thin[3] = {extent[0], extent[1], extent[2]}, volume = 1;
      std::sort(thin, thin + 3, std::greater<double>());
      for (int d = 0; d < used; ++d) volume *= thin[d] / widest;
      const double cube = widest * std::pow(volume / target, 1.0 / used);
      if (cube > 0 && thin[used - 1] >= cube) { side = cube; break; }
    }
    for (int d = 0; d < 3; ++d) {
      const auto fit = static_cast<int64_t>(extent[d] / side);
      layers[d] = std::min(fit, static_cast<int64_t>(target)) + 1;
    }
    start.assign(layers[0] * layers[1] * layers[2] + 1, 0);
    std::vector<int64_t> voxel(end - begin);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = layer(2, xyz[3 * i + 2]) * layers[1] + layer(1, xyz[3 * i + 1]);
      voxel[i - begin] = row * layers[0] + layer(0, xyz[3 * i]);
      ++start[voxel[i - begin] + 1];
    }
    for (size_t v = 1; v < start.size(); ++v) start[v] += start[v - 1];
    std::vector<int64_t> next(start.begin(), start.end() - 1);
    for (auto& axis : at) axis.resize(end - begin);
    index.resize(end - begin);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t place = next[voxel[i - begin]]++;
      for (int d = 0; d < 3; ++d) at[d][place] = xyz[3 * i + d];
      index[place] = static_cast<int32_t>(i);
    }
  }

  int64_t layer(int d, double coordinate) const {
    return std::min(static_cast<int64_t>((coordinate - low[d]) / side), layers[d] - 1);
  }

  // Offers the points of voxels [from, to] of one row, which lie one behind the other.
  void offer(int64_t z, int64_t y, int64_t from, int64_t to, const float* query,
             std::vector<Found>& best) const {
    const int64_t row = (z * layers[1] + y) * layers[0];
    from = std::max<int64_t>(from, 0), to = std::min(to, layers[0] - 1);
    if (from > to) return;
    for (int64_t i = start[row + from]; i < start[row + to + 1]; ++i) {
      const float dx = at[0][i] - query[0], dy = at[1][i] - query[1], dz = at[2][i] - query[2];
      const Found point{dx * dx + dy * dy + dz * dz, index[i]};
      if (!(point < best.back())) continue;
      size_t place = best.size() - 1;
      for (; place > 0 && point < best[place - 1]; --place) best[place] = best[place - 1];
      best[place] = point;
    }
  }

  // Shells of voxels around the query, until nothing in the next one can be nearer than the
  // worst of `best`.
  void search(const float* query, std::vector<Found>& best) const {
    int64_t home[3], last = 0;
    for (int d = 0; d < 3; ++d) {
      home[d] = layer(d, query[d]);
      last = std::max({last, home[d], layers[d] - 1 - home[d]});
    }
    for (int64_t r = 0; r <= last; ++r) {
      // a little less, because the layers' borders are rounded
      const double reach = static_cast<double>(r - 1) * side * (1 - 1e-5);
      // float, as the squares: a double would see what they have lost
      const float gap = static_cast<float>(reach);
      if (r > 1 && gap * gap > best.back().square) break;
      const int64_t top = std::min(home[2] + r, layers[2] - 1);
      const int64_t back = std::min(home[1] + r, layers[1] - 1);
      for (int64_t z = std::max<int64_t>(home[2] - r, 0); z <= top; ++z) {
        for (int64_t y = std::max<int64_t>(home[1] - r, 0); y <= back; ++y) {
          if (std::abs(z - home[2]) == r || std::abs(y - home[1]) == r) {
            offer(z, y, home[0] - r, home[0] + r, query, best);
          } else {
            offer(z, y, home[0] - r, home[0] - r, query, best);
            offer(z, y, home[0] + r, home[0] + r, query, best);
          }
        }
      }
    }
  }

  double low[3], side;
  int64_t layers[3];
  std::vector<int64_t> start;
  std::vector<float> at[3];
  std::vector<int32_t> index;
};
// END

// The points [begin, end) are one batch. idx and dist are already
// filled with -1 and 0.
void neighbours(OrtKernelContext* context, const float* xyz, int64_t begin, int64_t end,
                int64_t k, int32_t* idx, float* dist) {
  // ANSWER c14.knn_grid: the rows begin … end of idx and dist, without comparing all pairs
  if (begin == end) return;
  const Voxels voxels(xyz, begin, end);
  const int64_t count = std::min(k, end - begin);
  oplab::parallel_for(context, end - begin, 256, [&](int64_t from, int64_t to) {
    std::vector<Found> best(count);
    // in the voxels' order: the next query reads what this one has read
    for (int64_t place = from; place < to; ++place) {
      const int64_t query = voxels.index[place];
      best.assign(count, {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<int32_t>::max()});
      voxels.search(xyz + 3 * query, best);
      for (int64_t i = 0; i < count; ++i) {
        idx[query * k + i] = best[i].index;
        dist[query * k + i] = std::sqrt(best[i].square);
      }
    }
  });
  // END
}

struct KNN {
  KNN(const OrtApi*, const OrtKernelInfo* info) : k(oplab::int_attribute(info, "k")) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    if (k < 1 || k > most) {
      oplab::refuse("k must be between 1 and ", most, ", but it is ", k, ".");
    }
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& xyz,
                      const Tensor<int64_t>& offset, Tensor<int32_t>& idx,
                      Tensor<float>& dist) {
    const std::vector<int64_t> shape = xyz.Shape();
    if (shape.size() != 2 || shape[1] != 3 || offset.Shape().size() != 1) {
      return oplab::invalid("KNN: xyz is [n,3], offset is [b].");
    }
    const int64_t n = shape[0], batches = offset.NumberOfElement(), *ends = offset.Data();
    for (int64_t i = 0; i < batches; ++i) {
      if (ends[i] < (i ? ends[i - 1] : 0)) return oplab::invalid("KNN: offset must not fall.");
    }
    if ((batches ? ends[batches - 1] : 0) != n) {
      return oplab::invalid("KNN: the last offset must be the number of points.");
    }
    const float* points = xyz.Data();
    for (int64_t i = 0; i < 3 * n; ++i) {
      if (!std::isfinite(points[i])) return oplab::invalid("KNN: xyz must be finite.");
    }
    int32_t* index = idx.Allocate({n, k});
    float* distance = dist.Allocate({n, k});
    std::fill_n(index, n * k, -1);
    std::fill_n(distance, n * k, 0.0f);
    for (int64_t i = 0; i < batches; ++i) {
      neighbours(context, points, i ? ends[i - 1] : 0, ends[i], k, index, distance);
    }
    return Ort::Status{nullptr};
  }

  const int64_t k;
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    // operator and domain must outlive every session
    static const oplab::Op<KNN> op{"KNN"};
    Ort::CustomOpDomain made{"lab"};
    made.Add(&op);
    return made;
  });
}
