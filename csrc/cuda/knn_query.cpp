// oplab::KNNQuery for CUDAExecutionProvider. The offsets are inputs in the CPU's memory: they are few, and decide what is refused.
// The points are on the GPU, which checks that they are finite; Compute waits for that result. CUDA graphs cannot record a kernel
// that waits.
#include "../ort_ops/knn_inputs.h"
#include "cuda_kernel.h"
#include "cuda_kernels.h"

namespace oplab {
namespace {

template <typename T>
struct Cloud {
  const char* name;
  const Tensor<T>& points;
};

template <typename T>
void check_finite_on_gpu(const std::vector<Cloud<T>>& clouds, cudaStream_t stream) {
  constexpr unsigned long long kNone = std::numeric_limits<unsigned long long>::max();
  GpuScratch<unsigned long long> first(std::vector<unsigned long long>(clouds.size(), kNone), stream);
  for (size_t c = 0; c < clouds.size(); ++c) {
    const Tensor<T>& points = clouds[c].points;
    must_succeed(
        gpu::launch_first_not_finite(on_gpu(points.Data()), points.NumberOfElement(), first.data() + c, stream),
        "the start of the kernel");
  }
  const std::vector<unsigned long long> found = first.fetch(clouds.size());
  for (size_t c = 0; c < clouds.size(); ++c) {
    if (found[c] == kNone) continue;
    OnGpu<T> stored;
    must_succeed(cudaMemcpy(&stored, clouds[c].points.Data() + found[c], sizeof(stored), cudaMemcpyDeviceToHost), "cudaMemcpy");
    knn::refuse_coordinate(clouds[c].name, static_cast<int64_t>(found[c]), gpu::Element<OnGpu<T>>::read(stored), kRefuse);
  }
}

template <typename T, typename Offset>
struct KNNQueryCuda {
  using Points = std::optional<const Tensor<T>*>;
  using Offsets = std::optional<const Tensor<Offset>*>;

  static constexpr const char* kProvider = kCuda;
  static bool reads_on_host(size_t input) { return input == 1 || input == 3; }  // offset, new_offset

  KNNQueryCuda(const OrtApi*, const OrtKernelInfo* info) : nsample_(int_attribute(info, "nsample")) {
    knn::check_nsample(nsample_, kRefuse);
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& xyz, const Tensor<Offset>& offset, Points new_xyz,
                      Offsets new_offset, Tensor<int32_t>& idx, Tensor<T>& dist) {
    knn::check_shapes(nsample_, xyz.Shape(), offset.Shape(), shape_of(new_xyz), shape_of(new_offset), kRefuse);
    const Tensor<T>& queries = new_xyz ? **new_xyz : xyz;
    const int64_t n = xyz.Shape()[0], rows = queries.Shape()[0];
    const std::vector<int64_t> ends = values_of(offset), query_ends = values_of(new_offset ? **new_offset : offset);
    knn::check_offset("offset", ends, "xyz", n, kRefuse);
    if (new_xyz) knn::check_offset("new_offset", query_ends, "new_xyz", rows, kRefuse);
    const cudaStream_t stream = stream_of(context);
    std::vector<Cloud<T>> clouds{{"xyz", xyz}};
    if (new_xyz) clouds.push_back({"new_xyz", queries});
    check_finite_on_gpu(clouds, stream);
    knn::check_largest(nsample_, n, ends, kRefuse);

    int32_t* const to_idx = idx.Allocate({rows, nsample_});
    T* const to_dist = dist.Allocate({rows, nsample_});
    GpuScratch<int64_t> offsets(ends, stream), query_offsets(query_ends, stream);
    GpuScratch<knn::Neighbour<gpu::Computed<OnGpu<T>>>> found(rows * nsample_, stream);
    const gpu::KnnTask<OnGpu<T>> task{nsample_,
                                      rows,
                                      static_cast<int64_t>(ends.size()),
                                      on_gpu(xyz.Data()),
                                      offsets.data(),
                                      on_gpu(queries.Data()),
                                      query_offsets.data(),
                                      found.data(),
                                      to_idx,
                                      on_gpu(to_dist)};
    must_succeed(gpu::launch_knn_query(task, stream), "the start of the kernel");
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) { infer_knn_shapes(shapes); }

 private:
  const int64_t nsample_;
};

template <typename T>
using KNNQueryInt64 = KNNQueryCuda<T, int64_t>;
template <typename T>
using KNNQueryInt32 = KNNQueryCuda<T, int32_t>;

}  // namespace

void add_knn_query_cuda(Ort::CustomOpDomain& domain) {
  add_for<KNNQueryInt64, float, double, Ort::Float16_t, Ort::BFloat16_t>(domain, "KNNQuery");
  add_for<KNNQueryInt32, float, double, Ort::Float16_t, Ort::BFloat16_t>(domain, "KNNQuery");
}

}  // namespace oplab
