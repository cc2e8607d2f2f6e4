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

// TODO c16.knn_kernel: the kernel KNN, a struct for oplab::Op, as the lines above describe it
#error "c16.knn_kernel is not written yet"

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
