// What the kernels for CUDAExecutionProvider share: ONNX Runtime's stream, errors of CUDA as statuses, memory of the GPU for one
// call of Compute.
#pragma once

#include <cuda_runtime_api.h>

#include "../ort_ops/oplab_kernel.h"
#include "launch.h"

namespace oplab {

constexpr const char* kCuda = "CUDAExecutionProvider";

// The status has CUDA's own name and sentence for the error.
inline void must_succeed(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw Ort::Exception(make_string(what, " failed: ", cudaGetErrorName(error), ", ", cudaGetErrorString(error), "."), ORT_FAIL);
}

// Everything that a kernel does is put on this stream. Another one would not wait for the kernels that compute the inputs.
inline cudaStream_t stream_of(OrtKernelContext* context) {
  return static_cast<cudaStream_t>(Ort::KernelContext(context).GetGPUComputeStream());
}

namespace detail {
template <typename T>
struct OnGpu {
  using type = T;
};
template <>
struct OnGpu<Ort::Float16_t> {
  using type = gpu::Float16;
};
template <>
struct OnGpu<Ort::BFloat16_t> {
  using type = gpu::BFloat16;
};
}  // namespace detail

// The type that a .cu file has for ONNX Runtime's type, and a pointer to it.
template <typename T>
using OnGpu = typename detail::OnGpu<T>::type;
template <typename T>
const OnGpu<T>* on_gpu(const T* data) {
  return reinterpret_cast<const OnGpu<T>*>(data);
}
template <typename T>
OnGpu<T>* on_gpu(T* data) {
  return reinterpret_cast<OnGpu<T>*>(data);
}

// `count` elements in the GPU's memory. They are freed in the stream's order: after the kernels that use them, although the
// destructor runs before.
template <typename T>
class GpuScratch {
  static_assert(std::is_trivially_copyable_v<T>, "it is not initialised, and copied as bytes");

 public:
  GpuScratch(int64_t count, cudaStream_t stream) : stream_(stream) {
    if (count < 0 || count > std::numeric_limits<int64_t>::max() / static_cast<int64_t>(sizeof(T))) {
      refuse("memory of the GPU for ", count, " elements was asked for.");
    }
    if (count == 0) return;
    void* data = nullptr;
    must_succeed(cudaMallocAsync(&data, static_cast<size_t>(count) * sizeof(T), stream), "cudaMallocAsync");
    data_ = static_cast<T*>(data);
  }
  GpuScratch(const std::vector<T>& values, cudaStream_t stream) : GpuScratch(static_cast<int64_t>(values.size()), stream) {
    copy(data_, values.data(), values.size(), cudaMemcpyHostToDevice);
  }
  ~GpuScratch() {
    if (data_) cudaFreeAsync(data_, stream_);
  }

  GpuScratch(const GpuScratch&) = delete;
  GpuScratch& operator=(const GpuScratch&) = delete;

  T* data() { return data_; }

  // The first `count` elements, when the stream has computed them.
  std::vector<T> fetch(size_t count) {
    std::vector<T> values(count);
    copy(values.data(), data_, count, cudaMemcpyDeviceToHost);
    must_succeed(cudaStreamSynchronize(stream_), "a kernel");
    return values;
  }

 private:
  // Memory of the host that is not pinned has been read when cudaMemcpyAsync returns.
  void copy(T* to, const T* from, size_t count, cudaMemcpyKind kind) {
    if (count) must_succeed(cudaMemcpyAsync(to, from, count * sizeof(T), kind, stream_), "cudaMemcpyAsync");
  }

  cudaStream_t stream_;
  T* data_ = nullptr;
};

}  // namespace oplab
