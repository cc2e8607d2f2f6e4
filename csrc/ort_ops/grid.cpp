// oplab::Grid(pos, size, start?, end?) -> cluster, the number of each point's voxel, as torch_cluster::grid counts. For float and
// double.
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
    check_per_coordinate("size", size, d);
    if (start) check_per_coordinate("start", **start, d);
    if (end) check_per_coordinate("end", **end, d);

    const auto data = [](const Optional& input) { return input ? (*input)->Data() : nullptr; };
    const int64_t n = pos.Shape()[0];
    const Cloud<T> cloud{pos.Data(), n, d, size.Data(), data(start), data(end)};
    number_points(simd, cloud, cluster.Allocate({n}), kRefuse, parallel_for_on(context));
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
  static void check_per_coordinate(const char* name, const Tensor<T>& input, int64_t d) {
    if (input.Shape() != std::vector<int64_t>{d}) {
      refuse(name, " must have one value for each of pos's ", d, " coordinates, but its shape is ",
             shape_text(input.Shape()), ".");
    }
  }
};

}  // namespace

void add_grid(Ort::CustomOpDomain& domain) { add_for<Grid, float, double>(domain, "Grid"); }

}  // namespace oplab
