// oplab::KNNQuery(xyz, offset, new_xyz?, new_offset?) -> idx, dist: the nearest points of each query's batch, and how far they
// are. For float and double, with offsets of int64 or int32.
#include "../common/knn.h"
#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

constexpr auto kRefuse = [](const auto&... words) { refuse(words...); };

// For both types of offsets: the search is long to compile.
template <typename T>
void answer(const KnnQuery<T>& query, int64_t n, int64_t new_n, OrtKernelContext* context, Tensor<int32_t>& idx,
            Tensor<T>& dist) {
  const std::vector<int64_t> found{query.new_xyz ? new_n : n, query.nsample};
  find_neighbours(
      query, n, new_n, kRefuse, [&] { return std::pair(idx.Allocate(found), dist.Allocate(found)); },
      [&](int64_t all, int64_t piece, const auto& work) { parallel_for(context, all, piece, work); });
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
      // An empty tensor may have no memory, but a null pointer would mean that nothing was given.
      static const T nowhere[3] = {};
      query.new_xyz = (*new_xyz)->NumberOfElement() ? (*new_xyz)->Data() : nowhere;
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
  template <typename Given>
  static std::optional<knn::Shape> shape_of(const std::optional<const Given*>& given) {
    return given ? std::optional<knn::Shape>((*given)->Shape()) : std::nullopt;
  }

  static std::vector<int64_t> values_of(const Tensor<Offset>& offset) {
    const Offset* values = offset.Data();
    return {values, values + offset.NumberOfElement()};
  }

  const int64_t nsample_;
};

}  // namespace

void add_knn_query(Ort::CustomOpDomain& domain) {
  static const Op<KNNQuery<float, int64_t>> for_float{"KNNQuery"};
  static const Op<KNNQuery<double, int64_t>> for_double{"KNNQuery"};
  static const Op<KNNQuery<float, int32_t>> for_float_int32{"KNNQuery"};
  static const Op<KNNQuery<double, int32_t>> for_double_int32{"KNNQuery"};
  domain.Add(&for_float);
  domain.Add(&for_double);
  domain.Add(&for_float_int32);
  domain.Add(&for_double_int32);
}

}  // namespace oplab
