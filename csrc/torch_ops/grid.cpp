// oplab::grid(pos, size, start, end) -> the number of each point's voxel, as torch_cluster::grid counts.
#include "../common/voxels.h"
#include "operators.h"
#include "torch_kernel.h"

namespace oplab {
namespace {

constexpr auto kRefuse = [](const auto&... args) { STD_TORCH_CHECK(false, args...); };

template <typename T>
void grid_of(const Tensor& pos, const Tensor& size, const std::optional<Tensor>& start, const std::optional<Tensor>& end,
             int64_t d, Tensor& cluster) {
  const auto data = [](const std::optional<Tensor>& t) { return t ? t->const_data_ptr<T>() : nullptr; };
  const std::optional<Tensor> points = contiguous(pos), cell = contiguous(size), low = contiguous(start),
                              high = contiguous(end);
  const Cloud<T> cloud{data(points), cluster.numel(), d, data(cell), data(low), data(high)};
  number_points(chosen_simd(), cloud, cluster.mutable_data_ptr<int64_t>(), kRefuse, kParallelFor);
}

// size, start and end have one value for each of pos's d coordinates.
void check_per_coordinate(const Tensor& pos, int64_t d, const char* name, const Tensor& t) {
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
  STD_TORCH_CHECK(is_float_or_double(pos), "pos must be float32 or float64, but it is ", toString(pos.scalar_type()), ".");
  check_per_coordinate(pos, d, "size", size);
  if (start) check_per_coordinate(pos, d, "start", *start);
  if (end) check_per_coordinate(pos, d, "end", *end);

  Tensor cluster = torch::stable::new_empty(pos, {pos.size(0)}, ScalarType::Long);
  THO_DISPATCH_V2(pos.scalar_type(), "grid",
                  AT_WRAP([&] { grid_of<scalar_t>(pos, size, start, end, d, cluster); }), ScalarType::Float,
                  ScalarType::Double);
  return cluster;
}

}  // namespace oplab
