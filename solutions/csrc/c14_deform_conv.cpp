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
// ANSWER c14.deform_conv
constexpr int64_t kPixels = 48, kDepth = 64, kLanes = oplab::kPanel<float>;

// X as [n][h][w][c], with one pixel of zeros behind it that stands for every pixel outside.
std::vector<float> channels_last(const Task& t) {
  std::vector<float> image((t.n * t.h * t.wide + 1) * t.c);
  const int64_t plane = t.h * t.wide;
  for (int64_t n = 0; n < t.n; ++n) {
    for (int64_t c = 0; c < t.c; ++c) {
      const float* from = t.x + (n * t.c + c) * plane;
      for (int64_t i = 0; i < plane; ++i) image[(n * plane + i) * t.c + c] = from[i];
    }
  }
  return image;
}

// W as [panel][tap][c][lane], a panel being as many output channels as a vector has lanes.
std::vector<float> in_panels(const Task& t) {
  const int64_t panels = (t.o + kLanes - 1) / kLanes, taps = t.kh * t.kw;
  std::vector<float> packed(panels * taps * t.c * kLanes);
  for (int64_t o = 0; o < t.o; ++o) {
    for (int64_t c = 0; c < t.c; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t to = ((o / kLanes * taps + tap) * t.c + c) * kLanes + o % kLanes;
        packed[to] = t.w[(o * t.c + c) * taps + tap];
      }
    }
  }
  return packed;
}

// out[0 … count) = scale * the channels of one image at (y, x).
[[gnu::always_inline]] inline void sample(const Task& t, const float* image,
                                          const float* outside, float y, float x, float scale,
                                          int64_t count, float* out) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if (std::isnan(y) || std::isnan(x)) return void(std::fill_n(out, count, nan));
  if (!(y > -1 && y < static_cast<float>(t.h) && x > -1 && x < static_cast<float>(t.wide))) {
    return void(std::fill_n(out, count, 0 * scale));
  }
  const auto top = static_cast<int64_t>(std::floor(y));
  const auto left = static_cast<int64_t>(std::floor(x));
  const float down = y - static_cast<float>(top), right = x - static_cast<float>(left);
  const auto pixel = [&](int64_t row, int64_t column) {
    const bool inside = row >= 0 && row < t.h && column >= 0 && column < t.wide;
    return inside ? image + (row * t.wide + column) * t.c : outside;
  };
  const float *a = pixel(top, left), *b = pixel(top, left + 1);
  const float *c = pixel(top + 1, left), *d = pixel(top + 1, left + 1);
  const float wa = (1 - down) * (1 - right), wb = (1 - down) * right;
  const float wc = down * (1 - right), wd = down * right;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = scale * (wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i]);
  }
}

struct Tile {  // `pixels` pixels of image n from `first` on, in all output channels
  template <oplab::Simd simd>
  [[gnu::always_inline]] static void run(const Task& t, const float* image,
                                         const float* weights, int64_t n, int64_t first,
                                         int64_t pixels, float* sums) {
    const int64_t taps = t.kh * t.kw, plane = t.oh * t.ow, panels = (t.o + kLanes - 1) / kLanes;
    const float* picture = image + n * t.h * t.wide * t.c;
    const float* outside = image + t.n * t.h * t.wide * t.c;
    float samples[kPixels * kDepth] = {};
    std::fill_n(sums, panels * kPixels * kLanes, 0.0f);
    for (int64_t tap = 0; tap < taps; ++tap) {
      const float* down = t.offset + (n * taps + tap) * 2 * plane + first;
      const float* scale = t.mask + (n * taps + tap) * plane + first;
      for (int64_t c = 0; c < t.c; c += kDepth) {
        const int64_t depth = std::min(kDepth, t.c - c);
        for (int64_t p = 0; p < pixels; ++p) {
          const int64_t row = (first + p) / t.ow, column = (first + p) % t.ow;
          const float y = static_cast<float>(row * t.stride - t.pad + tap / t.kw) + down[p];
          const float x =
              static_cast<float>(column * t.stride - t.pad + tap % t.kw) + down[plane + p];
          sample(t, picture + c, outside, y, x, scale[p], depth, samples + p * kDepth);
        }
        for (int64_t panel = 0; panel < panels; ++panel) {
          const float* w = weights + ((panel * taps + tap) * t.c + c) * kLanes;
          oplab::Product<float, simd, kDepth, kPixels>::add(samples, pixels, depth, w, 1,
                                                            sums + panel * kPixels * kLanes);
        }
      }
    }
    for (int64_t o = 0; o < t.o; ++o) {
      const float* sum = sums + o / kLanes * kPixels * kLanes + o % kLanes;
      float* to = t.y + (n * t.o + o) * plane + first;
      for (int64_t p = 0; p < pixels; ++p) to[p] = sum[p * kLanes];
    }
  }
};
// END

void compute(OrtKernelContext* context, const Task& t) {
  // ANSWER c14.deform_conv: fill t.y; take each sample once, for all output channels
  const std::vector<float> image = channels_last(t), weights = in_panels(t);
  const int64_t pixels = t.oh * t.ow, tiles = (pixels + kPixels - 1) / kPixels;
  const oplab::Simd simd = oplab::chosen_simd();
  oplab::parallel_for(context, t.n * tiles, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> sums((t.o + kLanes - 1) / kLanes * kPixels * kLanes);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile % tiles * kPixels;
      oplab::run_vectorised<Tile>(simd, t, image.data(), weights.data(), tile / tiles, first,
                                  std::min(kPixels, pixels - first), sums.data());
    }
  });
  // END
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
