// oplab::Grid(pos, size, start?, end?) -> cluster, the number of the voxel that each point lies in, as torch_cluster::grid
// counts. For float and double.
#include "../common/voxels.h"
#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

template <typename T>
struct Grid {
  using Optional = std::optional<const Tensor<T>*>;

  Grid(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& pos, const Tensor<T>& size, Optional start,
                      Optional end, Tensor<int64_t>& cluster) {
    const int64_t d = coordinates(pos);
    check_along("size", size, d);
    if (start) check_along("start", **start, d);
    if (end) check_along("end", **end, d);

    const auto data = [](const Optional& given) { return given ? (*given)->Data() : nullptr; };
    const int64_t n = pos.Shape()[0];
    const Cloud<T> cloud{pos.Data(), n, d, size.Data(), data(start), data(end)};
    number_points(
        simd, cloud, cluster.Allocate({n}), [](const auto&... words) { refuse(words...); },
        [&](int64_t all, int64_t piece, const auto& work) { parallel_for(context, all, piece, work); });
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) {
    const Shapes::Dims pos = shapes.dims(0);
    if (!pos.empty()) shapes.set(0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, {pos[0]});
  }

 private:
  const Simd simd = chosen_simd();

  // All dimensions of pos but the first are a point's coordinates.
  static int64_t coordinates(const Tensor<T>& pos) {
    const std::vector<int64_t>& shape = pos.Shape();
    if (shape.empty()) refuse("pos must have at least one dimension, but it is a scalar.");
    int64_t d = 1;
    for (size_t k = 1; k < shape.size(); ++k) {
      if (__builtin_mul_overflow(d, shape[k], &d)) {
        refuse("pos has too many coordinates for each point: its shape is ", shape_text(shape), ".");
      }
    }
    if (d == 0) {
      refuse("pos must have at least one coordinate for each point, but its shape is ", shape_text(shape), ".");
    }
    return d;
  }

  // size, start and end have one value for each of pos's d coordinates. `name` is for the message.
  static void check_along(const char* name, const Tensor<T>& given, int64_t d) {
    if (given.Shape() != std::vector<int64_t>{d}) {
      refuse(name, " must have one value for each of pos's ", d, " coordinates, but its shape is ",
             shape_text(given.Shape()), ".");
    }
  }
};

}  // namespace

void add_grid(Ort::CustomOpDomain& domain) {
  static const Op<Grid<float>> for_float{"Grid"};
  static const Op<Grid<double>> for_double{"Grid"};
  domain.Add(&for_float);
  domain.Add(&for_double);
}

}  // namespace oplab
