// Starts the kernels of the .cu files on a stream. Each function returns at once, before the GPU has done the work, with the
// error of the start. Instantiated for float, double, Float16 and BFloat16.
#pragma once

#include <cuda_runtime_api.h>

#include "one_thread.h"

namespace oplab {
namespace gpu {

using Float16 = HalfBits<Half::float16>;
using BFloat16 = HalfBits<Half::bfloat16>;

template <typename T>
cudaError_t launch_my_add(const MyAddTask<T>& task, cudaStream_t stream);

template <typename T>
cudaError_t launch_knn_query(const KnnTask<T>& task, cudaStream_t stream);

// *first becomes the lowest i < size for which numbers[i] is not finite. It is left as it is where all are.
template <typename T>
cudaError_t launch_first_not_finite(const T* numbers, int64_t size, unsigned long long* first, cudaStream_t stream);

}  // namespace gpu
}  // namespace oplab
