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


// The points [begin, end) are one batch. idx and dist are already
// filled with -1 and 0.
void neighbours(OrtKernelContext* context, const float* xyz, int64_t begin, int64_t end,
                int64_t k, int32_t* idx, float* dist) {
  // TODO c14.knn_grid: the rows begin … end of idx and dist, without comparing all pairs
#error "c14.knn_grid is not written yet"
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
