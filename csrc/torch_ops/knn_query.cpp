// oplab::knn_query(nsample, xyz, offset, new_xyz, new_offset) -> the nearest points of each query's batch, and how far they
// are.
#include "operators.h"

#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/Dispatch_v2.h>

#include "../common/knn.h"
#include "shapes.h"

namespace oplab {
namespace {

using torch::headeronly::ScalarType;
using torch::headeronly::toString;
using torch::stable::Tensor;

constexpr auto kRefuse = [](const auto&... words) { STD_TORCH_CHECK(false, words...); };

std::optional<std::vector<int64_t>> shape_of(const std::optional<Tensor>& given) {
  if (!given) return std::nullopt;
  return std::vector<int64_t>(given->sizes().begin(), given->sizes().end());
}

std::vector<int64_t> values_of(const Tensor& offset) {
  const Tensor flat = torch::stable::contiguous(offset);
  if (flat.scalar_type() == ScalarType::Int) {
    const int32_t* values = flat.const_data_ptr<int32_t>();
    return std::vector<int64_t>(values, values + flat.numel());
  }
  const int64_t* values = flat.const_data_ptr<int64_t>();
  return std::vector<int64_t>(values, values + flat.numel());
}

void check_same_dtype(const char* name, const Tensor& given, const char* other_name, const Tensor& other) {
  STD_TORCH_CHECK(given.scalar_type() == other.scalar_type(), name, " must have ", other_name, "'s dtype, but ", name,
                  " is ", toString(given.scalar_type()), " and ", other_name, " is ", toString(other.scalar_type()),
                  ".");
}

template <typename T>
std::tuple<Tensor, Tensor> knn_of(int64_t nsample, const Tensor& xyz, const Tensor& offset,
                                  const std::optional<Tensor>& new_xyz, const std::optional<Tensor>& new_offset) {
  const Tensor points = torch::stable::contiguous(xyz);
  const std::optional<Tensor> queries =
      new_xyz ? std::optional<Tensor>(torch::stable::contiguous(*new_xyz)) : std::nullopt;
  KnnQuery<T> query{nsample, points.const_data_ptr<T>(), values_of(offset), nullptr, {}};
  if (queries) {
    // An empty tensor may have no memory, but a null pointer would mean that nothing was given.
    static const T nowhere[3] = {};
    query.new_xyz = queries->numel() ? queries->const_data_ptr<T>() : nowhere;
    query.new_offset = values_of(*new_offset);
  }
  const int64_t new_n = queries ? queries->size(0) : 0, m = queries ? new_n : points.size(0);
  std::optional<Tensor> idx, dist;
  find_neighbours(
      query, points.size(0), new_n, kRefuse,
      [&] {
        idx = torch::stable::new_empty(points, {m, nsample}, ScalarType::Int);
        dist = torch::stable::new_empty(points, {m, nsample});
        return std::pair(idx->mutable_data_ptr<int32_t>(), dist->mutable_data_ptr<T>());
      },
      [](int64_t all, int64_t piece, const auto& work) { torch::stable::parallel_for(0, all, piece, work); });
  return {*idx, *dist};
}

}  // namespace

std::tuple<Tensor, Tensor> knn_query(int64_t nsample, const Tensor& xyz, const Tensor& offset,
                                     const std::optional<Tensor>& new_xyz, const std::optional<Tensor>& new_offset) {
  knn::check_shapes(nsample, *shape_of(xyz), *shape_of(offset), shape_of(new_xyz), shape_of(new_offset), kRefuse);
  STD_TORCH_CHECK(xyz.scalar_type() == ScalarType::Float || xyz.scalar_type() == ScalarType::Double,
                  "xyz must be float32 or float64, but it is ", toString(xyz.scalar_type()), ".");
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
