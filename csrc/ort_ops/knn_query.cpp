// oplab::KNNQuery(xyz, offset, new_xyz?, new_offset?) -> idx, dist: the indices of each query's nearest neighbours within its
// batch, and their distances. For float and double, with offsets of int64 or int32.
#include "../common/knn.h"
#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

// Not a member of KNNQuery, so that the search, which is long to compile, is compiled once for both types of offsets.
template <typename T>
void answer(const KnnQuery<T>& query, int64_t n, int64_t new_n, OrtKernelContext* context, Tensor<int32_t>& idx,
            Tensor<T>& dist) {
  const std::vector<int64_t> found{query.new_xyz ? new_n : n, query.nsample};
  const auto allocate = [&] { return std::pair(idx.Allocate(found), dist.Allocate(found)); };
  find_neighbours(query, n, new_n, kRefuse, allocate, parallel_for_on(context));
}

template <typename T, typename Offset>
struct KNNQuery {
  using Points = std::optional<const Tensor<T>*>;
  using Offsets = std::optional<const Tensor<Offset>*>;

  KNNQuery(const OrtApi*, const OrtKernelInfo* info) : nsample_(int_attribute(info, "nsample")) {
    knn::check_nsample(nsample_, kRefuse);
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& xyz, const Tensor<Offset>& offset, Points new_xyz,
                      Offsets new_offset, Tensor<int32_t>& idx, Tensor<T>& dist) {
    knn::check_shapes(nsample_, xyz.Shape(), offset.Shape(), shape_of(new_xyz), shape_of(new_offset), kRefuse);
    KnnQuery<T> query{nsample_, xyz.Data(), values_of(offset), nullptr, {}};
    if (new_xyz) {
      // An empty tensor may have no memory, but a null pointer would mean that new_xyz is absent.
      static const T empty[3] = {};
      query.new_xyz = (*new_xyz)->NumberOfElement() ? (*new_xyz)->Data() : empty;
      query.new_offset = values_of(**new_offset);
    }
    answer(query, xyz.Shape()[0], new_xyz ? (*new_xyz)->Shape()[0] : 0, context, idx, dist);
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) {
    const bool is_self = shapes.input_count() < 3 || shapes.type(2) == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    const Shapes::Dims queries = shapes.dims(is_self ? 0 : 2);
    const int64_t nsample = shapes.int_attribute("nsample").value_or(0);
    if (queries.empty() || nsample < 1) return;
    shapes.set(0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, {queries[0], {nsample, ""}});
    shapes.set(1, shapes.type(0), {queries[0], {nsample, ""}});
  }

 private:
  template <typename Input>
  static std::optional<knn::Shape> shape_of(const std::optional<const Input*>& input) {
    return input ? std::optional<knn::Shape>((*input)->Shape()) : std::nullopt;
  }

  static std::vector<int64_t> values_of(const Tensor<Offset>& offset) {
    const Offset* values = offset.Data();
    return {values, values + offset.NumberOfElement()};
  }

  const int64_t nsample_;
};

template <typename T>
using KNNQueryInt64 = KNNQuery<T, int64_t>;
template <typename T>
using KNNQueryInt32 = KNNQuery<T, int32_t>;

}  // namespace

void add_knn_query(Ort::CustomOpDomain& domain) {
  add_for<KNNQueryInt64, float, double>(domain, "KNNQuery");
  add_for<KNNQueryInt32, float, double>(domain, "KNNQuery");
}

}  // namespace oplab
