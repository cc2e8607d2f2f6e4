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

// TODO c16.resize_kernel: the kernel DynamicResize, a struct for oplab::Op
#error "c16.resize_kernel is not written yet"

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
