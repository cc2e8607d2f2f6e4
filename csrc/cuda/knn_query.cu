// KNNQuery on the GPU: one thread for each query, which reads every point of its batch. The threads of a warp read the same point
// at the same time, which is one access to memory. For n points and m queries of one batch these are n*m distances, where the
// CPU's grid needs about 100 for each query.
#include "each.h"

namespace oplab {
namespace gpu {
namespace {

template <typename T>
__global__ void knn_query(KnnTask<T> task) {
  each(task.rows, [&](int64_t row) { knn_row(task, row); });
}

template <typename T>
__global__ void first_not_finite(const T* numbers, int64_t size, unsigned long long* first) {
  each(size, [&](int64_t i) {
    if (!is_finite(numbers[i])) atomicMin(first, static_cast<unsigned long long>(i));
  });
}

}  // namespace

template <typename T>
cudaError_t launch_knn_query(const KnnTask<T>& task, cudaStream_t stream) {
  if (task.rows == 0) return cudaSuccess;
  knn_query<<<blocks_for(task.rows), kThreads, 0, stream>>>(task);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_first_not_finite(const T* numbers, int64_t size, unsigned long long* first, cudaStream_t stream) {
  if (size == 0) return cudaSuccess;
  first_not_finite<<<blocks_for(size), kThreads, 0, stream>>>(numbers, size, first);
  return cudaGetLastError();
}

#define OPLAB_FOR(T)                                                     \
  template cudaError_t launch_knn_query(const KnnTask<T>&, cudaStream_t); \
  template cudaError_t launch_first_not_finite(const T*, int64_t, unsigned long long*, cudaStream_t);
OPLAB_FOR(float)
OPLAB_FOR(double)
OPLAB_FOR(Float16)
OPLAB_FOR(BFloat16)
#undef OPLAB_FOR

}  // namespace gpu
}  // namespace oplab
