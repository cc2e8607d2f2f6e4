// How the elements of an array are shared out among the threads of the GPU.
#pragma once

#include "launch.h"

namespace oplab {
namespace gpu {

constexpr int kThreads = 256;           // of one block
constexpr int64_t kBlocks = 1 << 16;    // at most: a thread then has several elements

inline unsigned blocks_for(int64_t size) {
  const int64_t blocks = (size + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kBlocks ? blocks : kBlocks);
}

// In a kernel: work(i) for each i < size that is this thread's.
template <typename Work>
__device__ void each(int64_t size, const Work& work) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += step) work(i);
}

}  // namespace gpu
}  // namespace oplab
