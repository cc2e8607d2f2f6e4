// oplab::KNNQuery(xyz, offset, new_xyz?, new_offset?) -> idx, dist: the indices of each query's nearest neighbours within its
// batch, and their distances. For float, double, float16 and bfloat16, with offsets of int64 or int32. The distances between
// points of float16 and bfloat16 are computed and compared in float, and rounded when they are written.
#include <functional>

#include "../common/knn.h"
#include "kernels.h"
#include "knn_inputs.h"
#include "oplab_kernel.h"
#include "stored.h"

namespace oplab {
namespace {

// The outputs, once the query has been checked. A std::function, so that the search, which is long to compile, is compiled once
// for each type that it computes in.
template <typename T>
using Allocate = std::function<std::pair<int32_t*, T*>()>;

template <typename T>
void answer(const KnnQuery<T>& query, int64_t n, int64_t new_n, OrtKernelContext* context, const Allocate<T>& allocate) {
  find_neighbours(query, n, new_n, kRefuse, allocate, parallel_for_on(context));
}

// The numbers of a tensor as they are, or converted. The second is for the converted ones.
template <typename T>
const typename Stored<T>::Computed* numbers_of(const Tensor<T>& tensor, OrtKernelContext* context, Simd simd,
                                               std::optional<Scratch<typename Stored<T>::Computed>>& converted) {
  if constexpr (converts<T>) {
    converted.emplace(context, tensor.NumberOfElement());
    Stored<T>::read(simd, tensor.Data(), tensor.NumberOfElement(), converted->data());
    return converted->data();
  } else {
    (void)context, (void)simd, (void)converted;
    return tensor.Data();
  }
}

template <typename T, typename Offset>
struct KNNQuery {
  using Points = std::optional<const Tensor<T>*>;
  using Offsets = std::optional<const Tensor<Offset>*>;

  using Computed = typename Stored<T>::Computed;

  KNNQuery(const OrtApi*, const OrtKernelInfo* info)
      : nsample_(int_attribute(info, "nsample")), simd_(converts<T> ? chosen_simd() : Simd::plain) {
    knn::check_nsample(nsample_, kRefuse);
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& xyz, const Tensor<Offset>& offset, Points new_xyz,
                      Offsets new_offset, Tensor<int32_t>& idx, Tensor<T>& dist) {
    knn::check_shapes(nsample_, xyz.Shape(), offset.Shape(), shape_of(new_xyz), shape_of(new_offset), kRefuse);
    std::optional<Scratch<Computed>> points, new_points, distances;
    KnnQuery<Computed> query{nsample_, numbers_of(xyz, context, simd_, points), values_of(offset), nullptr, {}};
    if (new_xyz) {
      // An empty tensor may have no memory, but a null pointer would mean that new_xyz is absent.
      static const Computed empty[3] = {};
      query.new_xyz = (*new_xyz)->NumberOfElement() ? numbers_of(**new_xyz, context, simd_, new_points) : empty;
      query.new_offset = values_of(**new_offset);
    }
    const int64_t n = xyz.Shape()[0], new_n = new_xyz ? (*new_xyz)->Shape()[0] : 0;
    const std::vector<int64_t> found{new_xyz ? new_n : n, nsample_};
    T* to = nullptr;
    answer<Computed>(query, n, new_n, context, [&] {
      to = dist.Allocate(found);
      if constexpr (converts<T>) {
        distances.emplace(context, found[0] * nsample_);
        return std::pair(idx.Allocate(found), distances->data());
      } else {
        return std::pair(idx.Allocate(found), to);
      }
    });
    if constexpr (converts<T>) Stored<T>::write(simd_, distances->data(), distances->size(), to);
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) { infer_knn_shapes(shapes); }

 private:
  const int64_t nsample_;
  const Simd simd_;
};

template <typename T>
using KNNQueryInt64 = KNNQuery<T, int64_t>;
template <typename T>
using KNNQueryInt32 = KNNQuery<T, int32_t>;

}  // namespace

void add_knn_query(Ort::CustomOpDomain& domain) {
  add_for<KNNQueryInt64, float, double, Ort::Float16_t, Ort::BFloat16_t>(domain, "KNNQuery");
  add_for<KNNQueryInt32, float, double, Ort::Float16_t, Ort::BFloat16_t>(domain, "KNNQuery");
}

}  // namespace oplab
