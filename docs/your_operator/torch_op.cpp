// torch.ops.my.rotated_roi_align and the operator of its backward, for the CPU, on PyTorch's stable
// ABI. The fakes, the backward itself and autocast are in src/rotated_roi_align/torch_op.py.
#include <torch/csrc/stable/library.h>

#include "oplab/torch_kernel.h"
#include "rotated_roi_align.h"

namespace {

using namespace oplab;

constexpr auto kThrow = [](const auto&... words) {
  STD_TORCH_CHECK(false, make_string("rotated_roi_align: ", words...));
};

void check_dtypes(const char* name, const Tensor& x, const Tensor& rois) {
  if (!is_float_or_double(x)) {
    kThrow(name, " must be float32 or float64, but it is ", toString(x.scalar_type()), ".");
  }
  if (rois.scalar_type() != x.scalar_type()) {
    kThrow("rois must have ", name, "'s dtype, but rois is ", toString(rois.scalar_type()), " and ",
           name, " is ", toString(x.scalar_type()), ".");
  }
}

Tensor rotated_roi_align(const Tensor& x, const Tensor& rois, double spatial_scale,
                         int64_t output_height, int64_t output_width, int64_t sampling_ratio) {
  const op::Attributes attributes{spatial_scale, output_height, output_width, sampling_ratio};
  op::check(attributes, kThrow);
  const op::Shape x_shape = shape_of(x);
  const op::Shape y_shape = op::output_shape(x_shape, shape_of(rois), attributes, kThrow);
  check_dtypes("x", x, rois);
  // The loop walks memory in order. A contiguous tensor is not copied.
  const Tensor from = torch::stable::contiguous(x), boxes = torch::stable::contiguous(rois);
  Tensor y = torch::stable::new_empty(from, y_shape);
  THO_DISPATCH_V2(x.scalar_type(), "rotated_roi_align", AT_WRAP([&] {
                    const auto* const values = boxes.const_data_ptr<scalar_t>();
                    op::check_rois(values, y_shape[0], x_shape[0], kThrow);
                    op::run(from.const_data_ptr<scalar_t>(), x_shape, values, y_shape[0],
                            attributes, y.mutable_data_ptr<scalar_t>(), kParallelFor);
                  }),
                  ScalarType::Float, ScalarType::Double);
  return y;
}

// images, height and width are those of x: they do not follow from grad, the gradient of y.
Tensor rotated_roi_align_backward(const Tensor& grad, const Tensor& rois, int64_t images,
                                  int64_t height, int64_t width, double spatial_scale,
                                  int64_t sampling_ratio) {
  if (grad.dim() != 4) kThrow("grad must be [K, C, height, width].");
  const op::Attributes attributes{spatial_scale, grad.size(2), grad.size(3), sampling_ratio};
  op::check(attributes, kThrow);
  const op::Shape x_shape{images, grad.size(1), height, width};
  const op::Shape y_shape = op::output_shape(x_shape, shape_of(rois), attributes, kThrow);
  if (grad.size(0) != y_shape[0]) kThrow("grad must have one row for each box.");
  check_dtypes("grad", grad, rois);
  const Tensor from = torch::stable::contiguous(grad), boxes = torch::stable::contiguous(rois);
  Tensor grad_x = torch::stable::new_empty(from, x_shape);
  THO_DISPATCH_V2(grad.scalar_type(), "rotated_roi_align_backward", AT_WRAP([&] {
                    const auto* const values = boxes.const_data_ptr<scalar_t>();
                    op::check_rois(values, y_shape[0], images, kThrow);
                    op::run_backward(from.const_data_ptr<scalar_t>(), values, y_shape[0], x_shape,
                                     attributes, grad_x.mutable_data_ptr<scalar_t>(), kParallelFor);
                  }),
                  ScalarType::Float, ScalarType::Double);
  return grad_x;
}

}  // namespace

STABLE_TORCH_LIBRARY(my, m) {
  m.def(
      "rotated_roi_align(Tensor x, Tensor rois, float spatial_scale=1.0, int output_height=7, "
      "int output_width=7, int sampling_ratio=2) -> Tensor");
  m.def(
      "rotated_roi_align_backward(Tensor grad, Tensor rois, SymInt images, SymInt height, "
      "SymInt width, float spatial_scale, int sampling_ratio) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(my, CPU, m) {
  m.impl("rotated_roi_align", TORCH_BOX(&rotated_roi_align));
  m.impl("rotated_roi_align_backward", TORCH_BOX(&rotated_roi_align_backward));
}
