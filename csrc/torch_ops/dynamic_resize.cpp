// oplab::dynamic_resize(x, scales) -> x, enlarged or reduced bicubically by factors that are data, as ONNX's Resize.
#include "../common/resize.h"
#include "operators.h"
#include "torch_kernel.h"

namespace oplab {
namespace {

constexpr auto kRefuse = [](const auto&... args) { STD_TORCH_CHECK(false, args...); };

void check_dtypes(const char* name, const Tensor& images, const Tensor& scales) {
  STD_TORCH_CHECK(is_float_or_double(images), name, " must be float32 or float64, but it is ",
                  toString(images.scalar_type()), ".");
  STD_TORCH_CHECK(scales.scalar_type() == ScalarType::Float, "scales must be float32, but it is ",
                  toString(scales.scalar_type()), ".");
}

Images plan_for(const resize::Shape& x, const Tensor& scales) {
  const Tensor flat = torch::stable::contiguous(scales);
  return resize::plan(x, flat.const_data_ptr<float>(), kRefuse);
}

}  // namespace

Tensor dynamic_resize(const Tensor& x, const Tensor& scales) {
  resize::check_shapes(shape_of(x), shape_of(scales), kRefuse);
  check_dtypes("x", x, scales);
  const Images images = plan_for(shape_of(x), scales);
  const Tensor flat = torch::stable::contiguous(x);
  Tensor y = torch::stable::new_empty(flat, {x.size(0), x.size(1), images.new_height, images.new_width});
  THO_DISPATCH_V2(x.scalar_type(), "dynamic_resize", AT_WRAP([&] {
                    resize_images(images, flat.const_data_ptr<scalar_t>(), y.mutable_data_ptr<scalar_t>(),
                                  kParallelFor);
                  }),
                  ScalarType::Float, ScalarType::Double);
  return y;
}

// height and width are those of x: they do not follow from grad, which is the gradient of y.
Tensor dynamic_resize_backward(const Tensor& grad, const Tensor& scales, int64_t height, int64_t width) {
  STD_TORCH_CHECK(grad.dim() == 4, "grad must have the shape [N, C, H, W], but its shape is ", shape_text(grad), ".");
  const resize::Shape x{grad.size(0), grad.size(1), height, width};
  resize::check_shapes(x, shape_of(scales), kRefuse);
  check_dtypes("grad", grad, scales);
  const Images images = plan_for(x, scales);
  STD_TORCH_CHECK(grad.size(2) == images.new_height && grad.size(3) == images.new_width,
                  "grad must have the size that scales make of ", height, " x ", width, ", which is ",
                  images.new_height, " x ", images.new_width, ", but its shape is ", shape_text(grad), ".");
  const Tensor flat = torch::stable::contiguous(grad);
  Tensor grad_x = torch::stable::new_empty(flat, {x[0], x[1], height, width});
  THO_DISPATCH_V2(grad.scalar_type(), "dynamic_resize_backward", AT_WRAP([&] {
                    resize_images_backward(images, flat.const_data_ptr<scalar_t>(),
                                           grad_x.mutable_data_ptr<scalar_t>(), kParallelFor);
                  }),
                  ScalarType::Float, ScalarType::Double);
  return grad_x;
}

}  // namespace oplab
