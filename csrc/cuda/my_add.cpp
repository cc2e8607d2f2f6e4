// oplab::MyAdd for CUDAExecutionProvider.
#include "../ort_ops/my_add.h"

#include "cuda_kernel.h"
#include "cuda_kernels.h"

namespace oplab {
namespace {

template <typename T>
struct MyAddCuda {
  static constexpr const char* kProvider = kCuda;

  MyAddCuda(const OrtApi*, const OrtKernelInfo* info) : alpha(alpha_of(info)), beta(beta_of(info)) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& a, const Tensor<T>& b, Tensor<T>& y) {
    check_same_shape(a.Shape(), b.Shape());
    const gpu::MyAddTask<OnGpu<T>> task{
        on_gpu(a.Data()), on_gpu(b.Data()), alpha, beta, a.NumberOfElement(), on_gpu(y.Allocate(a.Shape()))};
    must_succeed(gpu::launch_my_add(task, stream_of(context)), "the start of the kernel");
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) { infer_same_shape(shapes); }

  const float alpha, beta;
};

}  // namespace

void add_my_add_cuda(Ort::CustomOpDomain& domain) {
  add_for<MyAddCuda, float, double, Ort::Float16_t, Ort::BFloat16_t>(domain, "MyAdd");
}

}  // namespace oplab
