// c16.knn_kernel: lab::KNN(xyz float[n, 3], offset int64[b]; k int) ->
// idx int64[n, k]
//
// For each point, the k nearest points of its own cloud, nearest first,
// ties to the lower index. offset[i] is the number of points in the
// clouds 0 to i; idx is an index into all of xyz. If a cloud has fewer
// than k points, the rest of the row repeats the row's first entry.
// Clouds may be empty, and there may be no clouds. k has no default and
// is at least 1; the constructor refuses other values. These are also
// refused with a message: an xyz that is not [n, 3], points that are
// NaN or infinite (the message contains the index of the first), and
// offsets that are not of rank 1, decrease, or do not end at n. Clouds
// may be far from the origin: compute distances from differences of
// coordinates.
// Not allowed (contains the answer): csrc/common/knn*.h,
// csrc/ort_ops/knn_*.
#include "oplab_kernel.h"

#include <cmath>

namespace {

using oplab::Tensor;

// ANSWER c16.knn_kernel: the kernel KNN, a struct for oplab::Op, as the lines above describe it
struct KNN {
  KNN(const OrtApi*, const OrtKernelInfo* info) : k(oplab::int_attribute(info, "k")) {
    if (k < 1) oplab::refuse("k must be at least 1, but it is ", k, ".");
  }

  Ort::Status Compute(const Tensor<float>& xyz, const Tensor<int64_t>& offset, Tensor<int64_t>& idx) {
    if (xyz.Shape().size() != 2 || xyz.Shape()[1] != 3) {
      oplab::refuse("xyz must have the shape [n, 3], but it is ", oplab::shape_text(xyz.Shape()), ".");
    }
    if (offset.Shape().size() != 1) oplab::refuse("offset must have one dimension.");
    const int64_t n = xyz.Shape()[0], clouds = offset.NumberOfElement();
    const int64_t* ends = offset.Data();
    for (int64_t i = 0; i < clouds; ++i) {
      if (ends[i] < (i ? ends[i - 1] : 0)) oplab::refuse("offset must not fall, but it does at ", i, ".");
    }
    if ((clouds ? ends[clouds - 1] : 0) != n) oplab::refuse("offset must end at ", n, ", the number of points.");

    const float* points = xyz.Data();
    for (int64_t i = 0; i < 3 * n; ++i) {  // the distance to a NaN is NaN, and has no place in any order
      if (!std::isfinite(points[i])) oplab::refuse("xyz must be finite, but its point ", i / 3, " is not.");
    }
    int64_t* row = idx.Allocate({n, k});
    std::vector<std::pair<float, int64_t>> found;  // in order of distance, then of index
    for (int64_t cloud = 0, first = 0; cloud < clouds; first = ends[cloud++]) {
      for (int64_t q = first; q < ends[cloud]; ++q, row += k) {
        found.clear();
        for (int64_t p = first; p < ends[cloud]; ++p) {
          float squared = 0;
          for (int axis = 0; axis < 3; ++axis) {
            const float gap = points[3 * p + axis] - points[3 * q + axis];
            squared += gap * gap;
          }
          found.emplace_back(squared, p);
        }
        const size_t given = std::min<size_t>(k, found.size());
        std::partial_sort(found.begin(), found.begin() + given, found.end());
        for (size_t j = 0; j < static_cast<size_t>(k); ++j) row[j] = found[j < given ? j : 0].second;
      }
    }
    return Ort::Status{nullptr};
  }

  const int64_t k;
};
// END

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    static const oplab::Op<KNN> op{"KNN"};  // operator and domain must outlive every session
    Ort::CustomOpDomain made{"lab"};
    made.Add(&op);
    return made;
  });
}
