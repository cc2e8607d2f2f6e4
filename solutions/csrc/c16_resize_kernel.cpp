// c16.resize_kernel:
//   lab::DynamicResize(x float[N, C, H, W], scales float[4])
//   -> y float[N, C, H', W']
//
// Bicubic resize by factors that are data: scales is 1, 1, the factor
// of the height and the factor of the width. A side becomes H' =
// floor(H * scale), multiplied in float. Pixel i of a side is at
// (i + 0.5) / scale - 0.5 in x, with the scale from the input, even if
// the side becomes one pixel. It is the weighted sum of the four pixels
// around that place, in both directions, with the weights of Keys'
// cubic and a = -0.75; at a distance d they are
//     (a + 2) d^3 - (a + 3) d^2 + 1          for d <= 1
//     a d^3 - 5a d^2 + 8a d - 4a             for 1 < d < 2
// Beyond a border, the border pixel is read. N and C may be 0. Return a
// status with a message for an x that is not of rank 4 or has no pixel,
// and for scales that are not four values, do not begin with 1, 1, are
// not finite and positive, leave no pixel, or result in a side of a
// million pixels or more.
// Not allowed (contains the answer): csrc/common/resize.h,
// csrc/ort_ops/dynamic_resize.cpp.
#include "oplab_kernel.h"

#include <cmath>

namespace {

using oplab::Tensor;

// ANSWER c16.resize_kernel: the kernel DynamicResize, a struct for oplab::Op
struct Tap {
  int64_t from[4];
  double weight[4];
};

// What each pixel of one side is made of.
std::vector<Tap> taps(int64_t length, float scale) {
  const float side = std::floor(static_cast<float>(length) * scale);
  if (side < 1) oplab::refuse("the scale ", scale, " leaves nothing of ", length, " pixels.");
  if (!(side < 1e6f)) oplab::refuse("the scale ", scale, " makes too many of ", length, " pixels.");
  const int64_t count = static_cast<int64_t>(side);  // not before: 1e30 has no int64, and converting it is undefined
  constexpr double a = -0.75;
  std::vector<Tap> made(count);
  for (int64_t i = 0; i < count; ++i) {
    const double at = (i + 0.5) / scale - 0.5;
    const int64_t whole = static_cast<int64_t>(std::floor(at));
    for (int k = 0; k < 4; ++k) {
      const int64_t pixel = whole - 1 + k;
      const double d = std::abs(at - pixel);
      made[i].from[k] = std::clamp<int64_t>(pixel, 0, length - 1);
      made[i].weight[k] =
          d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
    }
  }
  return made;
}

struct DynamicResize {
  DynamicResize(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(const Tensor<float>& x, const Tensor<float>& scales, Tensor<float>& y) {
    const std::vector<int64_t>& shape = x.Shape();
    if (shape.size() != 4 || shape[2] < 1 || shape[3] < 1) {
      oplab::refuse("x must have the shape [N, C, H, W] and a pixel, but its shape is ", oplab::shape_text(shape), ".");
    }
    if (scales.Shape() != std::vector<int64_t>{4}) oplab::refuse("scales must have four values.");
    const float *scale = scales.Data(), *from = x.Data();
    if (scale[0] != 1 || scale[1] != 1) oplab::refuse("the first two scales must be 1.");
    for (int k = 2; k < 4; ++k) {
      if (!(scale[k] > 0) || !std::isfinite(scale[k])) oplab::refuse("scales[", k, "] is ", scale[k], ".");  // NaN is not > 0
    }
    const std::vector<Tap> rows = taps(shape[2], scale[2]), columns = taps(shape[3], scale[3]);
    float* to = y.Allocate({shape[0], shape[1], static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns.size())});
    for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane, from += shape[2] * shape[3]) {
      for (const Tap& row : rows) {
        for (const Tap& column : columns) {
          double sum = 0;
          for (int i = 0; i < 4; ++i) {
            for (int j = 0; j < 4; ++j) {
              sum += row.weight[i] * column.weight[j] * from[row.from[i] * shape[3] + column.from[j]];
            }
          }
          *to++ = static_cast<float>(sum);
        }
      }
    }
    return Ort::Status{nullptr};
  }
};
// END

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    // Operator and domain must outlive every session.
    static const oplab::Op<DynamicResize> op{"DynamicResize"};
    Ort::CustomOpDomain made{"lab"};
    made.Add(&op);
    return made;
  });
}
