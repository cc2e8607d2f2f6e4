// MyAdd on the GPU. It is limited by memory bandwidth: threads next to each other read elements next to each other.
#include "each.h"

namespace oplab {
namespace gpu {
namespace {

template <typename T>
__global__ void my_add(MyAddTask<T> task) {
  each(task.size, [&](int64_t i) { my_add_at(task, i); });
}

}  // namespace

template <typename T>
cudaError_t launch_my_add(const MyAddTask<T>& task, cudaStream_t stream) {
  if (task.size == 0) return cudaSuccess;  // a grid without blocks is an error
  my_add<<<blocks_for(task.size), kThreads, 0, stream>>>(task);
  return cudaGetLastError();
}

template cudaError_t launch_my_add(const MyAddTask<float>&, cudaStream_t);
template cudaError_t launch_my_add(const MyAddTask<double>&, cudaStream_t);
template cudaError_t launch_my_add(const MyAddTask<Float16>&, cudaStream_t);
template cudaError_t launch_my_add(const MyAddTask<BFloat16>&, cudaStream_t);

}  // namespace gpu
}  // namespace oplab
