// oplab::knn_query(nsample, xyz, offset, new_xyz, new_offset) -> the indices of each query's nearest neighbours within its batch,
// and their distances.
#include "../common/knn.h"
#include "operators.h"
#include "torch_kernel.h"

namespace oplab {
namespace {

constexpr auto kRefuse = [](const auto&... args) { STD_TORCH_CHECK(false, args...); };

std::vector<int64_t> values_of(const Tensor& offset) {
  const Tensor flat = torch::stable::contiguous(offset);
  if (flat.scalar_type() == ScalarType::Int) {
    const int32_t* values = flat.const_data_ptr<int32_t>();
    return std::vector<int64_t>(values, values + flat.numel());
  }
  const int64_t* values = flat.const_data_ptr<int64_t>();
  return std::vector<int64_t>(values, values + flat.numel());
}

void check_same_dtype(const char* name, const Tensor& t, const char* other_name, const Tensor& other) {
  STD_TORCH_CHECK(t.scalar_type() == other.scalar_type(), name, " must have ", other_name, "'s dtype, but ", name,
                  " is ", toString(t.scalar_type()), " and ", other_name, " is ", toString(other.scalar_type()), ".");
}

template <typename T>
std::tuple<Tensor, Tensor> knn_of(int64_t nsample, const Tensor& xyz, const Tensor& offset,
                                  const std::optional<Tensor>& new_xyz, const std::optional<Tensor>& new_offset) {
  const Tensor points = torch::stable::contiguous(xyz);
  const std::optional<Tensor> queries = contiguous(new_xyz);
  KnnQuery<T> query{nsample, points.const_data_ptr<T>(), values_of(offset), nullptr, {}};
  if (queries) {
    // An empty tensor may have no memory, but a null pointer would mean that new_xyz is absent.
    static const T empty[3] = {};
    query.new_xyz = queries->numel() ? queries->const_data_ptr<T>() : empty;
    query.new_offset = values_of(*new_offset);
  }
  const int64_t new_n = queries ? queries->size(0) : 0, m = queries ? new_n : points.size(0);
  std::optional<Tensor> idx, dist;
  const auto allocate = [&] {
    idx = torch::stable::new_empty(points, {m, nsample}, ScalarType::Int);
    dist = torch::stable::new_empty(points, {m, nsample});
    return std::pair(idx->mutable_data_ptr<int32_t>(), dist->mutable_data_ptr<T>());
  };
  find_neighbours(query, points.size(0), new_n, kRefuse, allocate, kParallelFor);
  return {*idx, *dist};
}

}  // namespace

std::tuple<Tensor, Tensor> knn_query(int64_t nsample, const Tensor& xyz, const Tensor& offset,
                                     const std::optional<Tensor>& new_xyz, const std::optional<Tensor>& new_offset) {
  knn::check_shapes(nsample, shape_of(xyz), shape_of(offset), shape_of(new_xyz), shape_of(new_offset), kRefuse);
  STD_TORCH_CHECK(is_float_or_double(xyz), "xyz must be float32 or float64, but it is ", toString(xyz.scalar_type()), ".");
  STD_TORCH_CHECK(offset.scalar_type() == ScalarType::Long || offset.scalar_type() == ScalarType::Int,
                  "offset must be int64 or int32, but it is ", toString(offset.scalar_type()), ".");
  if (new_xyz) {
    check_same_dtype("new_xyz", *new_xyz, "xyz", xyz);
    check_same_dtype("new_offset", *new_offset, "offset", offset);
  }
  std::optional<std::tuple<Tensor, Tensor>> found;
  THO_DISPATCH_V2(xyz.scalar_type(), "knn_query",
                  AT_WRAP([&] { found = knn_of<scalar_t>(nsample, xyz, offset, new_xyz, new_offset); }),
                  ScalarType::Float, ScalarType::Double);
  return *found;
}

}  // namespace oplab
