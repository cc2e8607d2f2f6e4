// oplab::DynamicResize(x, scales) -> y: x, enlarged or reduced bicubically by factors that are inputs. For float and double.
#include "../common/resize.h"
#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

template <typename T>
struct DynamicResize {
  DynamicResize(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& x, const Tensor<float>& scales, Tensor<T>& y) {
    const resize::Shape& shape = x.Shape();
    resize::check_shapes(shape, scales.Shape(), kRefuse);
    const Images images = resize::plan(shape, scales.Data(), kRefuse);
    T* const to = y.Allocate({shape[0], shape[1], images.new_height, images.new_width});
    resize_images(images, x.Data(), to, parallel_for_on(context));
    return Ort::Status{nullptr};
  }

  // y's height and width depend on the values of scales: only y's rank, N and C are known.
  static void InferShapes(Shapes& shapes) {
    const Shapes::Dims x = shapes.dims(0);
    if (x.size() == 4) shapes.set(0, shapes.type(0), {x[0], x[1], {}, {}});
  }
};

}  // namespace

void add_dynamic_resize(Ort::CustomOpDomain& domain) { add_for<DynamicResize, float, double>(domain, "DynamicResize"); }

}  // namespace oplab
