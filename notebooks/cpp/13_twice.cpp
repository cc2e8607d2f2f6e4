// Chapter 13: 2x, for the CPU or, compiled by nvcc, for CUDA.
#include "13_kernel.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* y, int64_t size) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) y[i] = 2 * x[i];
}
#endif

namespace {

struct TwiceKernel {
  static void compute(const Ort::KernelContext& context) {
    const Ort::ConstValue in = context.GetInput(0);
    const auto info = in.GetTensorTypeAndShapeInfo();
    const int64_t size = info.GetElementCount();
    const float* x = in.GetTensorData<float>();
    float* y = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
#ifdef __CUDACC__  // x and y are addresses on the device: only a kernel there may read them
    if (size == 0) return;  // a grid of no blocks is an error
    const auto blocks = static_cast<unsigned>((size + 255) / 256);
    const auto stream = static_cast<cudaStream_t>(context.GetGPUComputeStream());
    twice<<<blocks, 256, 0, stream>>>(x, y, size);
    const cudaError_t error = cudaGetLastError();  // of the launch; the work itself goes on
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
#else
    for (int64_t i = 0; i < size; ++i) y[i] = 2 * x[i];
#endif
  }
};

template <typename Op>
struct TwiceOp : Base<Op, TwiceKernel> {
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 1; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t) const { return FLOAT; }
};

struct OnCpu : TwiceOp<OnCpu> {
  const char* GetName() const { return "Twice"; }
  const char* GetExecutionProviderType() const { return "CPUExecutionProvider"; }
};

struct OnCuda : TwiceOp<OnCuda> {
  const char* GetName() const { return "TwiceOnCuda"; }
  const char* GetExecutionProviderType() const { return "CUDAExecutionProvider"; }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
#ifdef __CUDACC__  // its compute reads the device's memory, so it is not for the CPU
  return add_to_lesson<OnCuda>(options, base);
#else
  return add_to_lesson<OnCpu, OnCuda>(options, base);
#endif
}
