// oplab::grid(pos, size, start, end) -> the number of the voxel that each point lies in, as torch_cluster::grid counts.
#include "operators.h"

#include <torch/csrc/stable/ops.h>
#include <torch/headeronly/core/Dispatch_v2.h>

#include "../common/voxels.h"
#include "shapes.h"

namespace oplab {
namespace {

using torch::headeronly::ScalarType;
using torch::headeronly::toString;
using torch::stable::Tensor;

template <typename T>
void grid_of(const Tensor& pos, const Tensor& size, const std::optional<Tensor>& start, const std::optional<Tensor>& end,
             int64_t d, Tensor& cluster) {
  const auto flat = [](const std::optional<Tensor>& given) {
    return given ? std::optional<Tensor>(torch::stable::contiguous(*given)) : std::nullopt;
  };
  const auto data = [](const std::optional<Tensor>& given) { return given ? given->const_data_ptr<T>() : nullptr; };
  const std::optional<Tensor> points = flat(pos), cell = flat(size), low = flat(start), high = flat(end);
  const Cloud<T> cloud{data(points), cluster.numel(), d, data(cell), data(low), data(high)};
  number_points(
      chosen_simd(), cloud, cluster.mutable_data_ptr<int64_t>(),
      [](const auto&... words) { STD_TORCH_CHECK(false, words...); },
      [](int64_t all, int64_t piece, const auto& work) { torch::stable::parallel_for(0, all, piece, work); });
}

// size, start and end have one value for each of pos's d coordinates. `name` is for the message.
void check_along(const Tensor& pos, int64_t d, const char* name, const Tensor& t) {
  STD_TORCH_CHECK(t.dim() == 1 && t.size(0) == d, name, " must have one value for each of pos's ", d,
                  " coordinates, but its shape is ", shape_text(t), ".");
  STD_TORCH_CHECK(t.scalar_type() == pos.scalar_type(), name, " must have pos's dtype, but ", name, " is ",
                  toString(t.scalar_type()), " and pos is ", toString(pos.scalar_type()), ".");
}

}  // namespace

Tensor grid(const Tensor& pos, const Tensor& size, const std::optional<Tensor>& start,
            const std::optional<Tensor>& end) {
  STD_TORCH_CHECK(pos.dim() >= 1, "pos must have at least one dimension, but it is a scalar.");
  int64_t d = 1;  // all dimensions but the first are a point's coordinates
  for (int64_t k = 1; k < pos.dim(); ++k) {
    STD_TORCH_CHECK(!__builtin_mul_overflow(d, pos.size(k), &d),
                    "pos has too many coordinates for each point: its shape is ", shape_text(pos), ".");
  }
  STD_TORCH_CHECK(d >= 1, "pos must have at least one coordinate for each point, but its shape is ", shape_text(pos),
                  ".");
  STD_TORCH_CHECK(pos.scalar_type() == ScalarType::Float || pos.scalar_type() == ScalarType::Double,
                  "pos must be float32 or float64, but it is ", toString(pos.scalar_type()), ".");
  check_along(pos, d, "size", size);
  if (start) check_along(pos, d, "start", *start);
  if (end) check_along(pos, d, "end", *end);

  Tensor cluster = torch::stable::new_empty(pos, {pos.size(0)}, ScalarType::Long);
  THO_DISPATCH_V2(pos.scalar_type(), "grid",
                  AT_WRAP([&] { grid_of<scalar_t>(pos, size, start, end, d, cluster); }), ScalarType::Float,
                  ScalarType::Double);
  return cluster;
}

}  // namespace oplab
