// oplab::DynamicResize(x, scales) -> y: x, enlarged or reduced bicubically by factors that are data. For float and double.
#include "../common/resize.h"
#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

constexpr auto kRefuse = [](const auto&... words) { refuse(words...); };

template <typename T>
struct DynamicResize {
  DynamicResize(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& x, const Tensor<float>& scales, Tensor<T>& y) {
    const resize::Shape& shape = x.Shape();
    resize::check_shapes(shape, scales.Shape(), kRefuse);
    const Images images = resize::plan(shape, scales.Data(), kRefuse);
    T* const to = y.Allocate({shape[0], shape[1], images.new_height, images.new_width});
    resize_images(images, x.Data(), to, [&](int64_t all, int64_t piece, const auto& work) {
      parallel_for(context, all, piece, work);
    });
    return Ort::Status{nullptr};
  }

  // y's height and width are data: their sizes are not known, and y's rank is.
  static void InferShapes(Shapes& shapes) {
    const Shapes::Dims x = shapes.dims(0);
    if (x.size() == 4) shapes.set(0, shapes.type(0), {x[0], x[1], {}, {}});
  }
};

}  // namespace

void add_dynamic_resize(Ort::CustomOpDomain& domain) {
  static const Op<DynamicResize<float>> for_float{"DynamicResize"};
  static const Op<DynamicResize<double>> for_double{"DynamicResize"};
  domain.Add(&for_float);
  domain.Add(&for_double);
}

}  // namespace oplab
