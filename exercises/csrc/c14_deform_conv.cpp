// c14.deform_conv: lab::DeformConv(X float[n,c,h,w],
//                                  W float[o,c,kh,kw],
//                                  offset float[n,2*kh*kw,oh,ow], mask float[n,kh*kw,oh,ow];
//                                  stride = 1, pad = 0) -> Y float[n,o,oh,ow]
//
// Y[n,o,i,j] = sum over channels c and taps t = (th, tw) of
//     W[o,c,th,tw] * mask[n,t,i,j] * X[n,c] at the place (y, x):
//     y = i*stride - pad + th + offset[n,2t,i,j], x = j*stride - pad + tw + offset[n,2t+1,i,j],
// between pixels: interpolated bilinearly, where each of the four
// pixels that is outside of the image counts as 0. With -1 < y < 0, row
// 0 still contributes. A place that is far outside or infinite gives 0.
// If y or x is NaN, the sample is NaN, even if the other coordinate is
// outside. The bits of the result do not depend on threads. Only the
// size n may be 0.
//
// A correct answer passes at any speed. The full score requires 0.6
// times the speed of ONNX Runtime's own DeformConv on one thread, and
// an `oplab::parallel_for` that splits a large input into more than one
// piece.
// Not allowed (contains the answer): csrc/ort_ops/deform_conv2d.cpp.
#include "oplab_kernel.h"

#include <cmath>
#include <limits>

#include "matrix_tile.h"  // Product and run_vectorised, for the blocked step

namespace {

using oplab::Tensor;

struct Task {
  const float *x, *w, *offset, *mask;
  float* y;
  int64_t n, c, h, wide, o, kh, kw, oh, ow, stride, pad;  // `wide` is the width of X
};

void compute(OrtKernelContext* context, const Task& t) {
  // TODO c14.deform_conv: fill t.y; take each sample once, for all output channels
#error "c14.deform_conv is not written yet"
}

struct DeformConv {
  DeformConv(const OrtApi*, const OrtKernelInfo* info)
      : stride(oplab::int_attribute(info, "stride", 1)),
        pad(oplab::int_attribute(info, "pad", 0)) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();  // so that no sum overflows
    if (stride < 1 || stride > most || pad < 0 || pad > most) {
      oplab::refuse("stride must be between 1 and ", most, ", pad between 0 and ", most, ".");
    }
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, const Tensor<float>& w,
                      const Tensor<float>& offset, const Tensor<float>& mask,
                      Tensor<float>& y) {
    const std::vector<int64_t> xs = x.Shape(), ws = w.Shape();
    if (xs.size() != 4 || ws.size() != 4 || xs[1] != ws[1]) {
      return oplab::invalid("DeformConv: X is [n,c,h,w], W is [o,c,kh,kw].");
    }
    if (xs[2] + 2 * pad < ws[2] || xs[3] + 2 * pad < ws[3]) {
      return oplab::invalid("DeformConv: W does not fit into X.");
    }
    const int64_t taps = ws[2] * ws[3], oh = (xs[2] + 2 * pad - ws[2]) / stride + 1;
    const int64_t ow = (xs[3] + 2 * pad - ws[3]) / stride + 1;
    if (offset.Shape() != std::vector<int64_t>{xs[0], 2 * taps, oh, ow}) {
      return oplab::invalid("DeformConv: offset is [n,2*kh*kw,oh,ow].");
    }
    if (mask.Shape() != std::vector<int64_t>{xs[0], taps, oh, ow}) {
      return oplab::invalid("DeformConv: mask is [n,kh*kw,oh,ow].");
    }
    float* out = y.Allocate({xs[0], ws[0], oh, ow});
    compute(context, {x.Data(), w.Data(), offset.Data(), mask.Data(), out, xs[0], xs[1], xs[2],
                      xs[3], ws[0], ws[2], ws[3], oh, ow, stride, pad});
    return Ort::Status{nullptr};
  }

  const int64_t stride, pad;
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    // operator and domain must outlive every session
    static const oplab::Op<DeformConv> op{"DeformConv"};
    Ort::CustomOpDomain made{"lab"};
    made.Add(&op);
    return made;
  });
}
