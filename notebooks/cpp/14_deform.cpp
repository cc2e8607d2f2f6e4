// Chapter 14: a deformable convolution (one image, a 3x3 kernel, pad 1, no mask), as five
// operators of the domain `lesson`, one for each step of the lesson.
#include <algorithm>
#include <cmath>

#include "matrix_tile.h"
#include "oplab_kernel.h"

namespace {

using oplab::Tensor;

struct Task {
  const float *x, *w, *offset;  // [c][h][wide], [o][c][9], [9][2][h][wide]
  float* y;                     // [o][h][wide]
  int64_t c, h, wide, o;
};

struct Place {  // of one tap at one pixel: the four pixels around it, and their weights
  Place(const Task& t, int64_t pixel, int64_t tap) {
    const float* offset = t.offset + 2 * tap * t.h * t.wide + pixel;
    const float y = static_cast<float>(pixel / t.wide - 1 + tap / 3) + offset[0];
    const float x = static_cast<float>(pixel % t.wide - 1 + tap % 3) + offset[t.h * t.wide];
    std::fill_n(at, 4, -1);  // -1: outside of the image, so it counts as 0
    std::fill_n(weight, 4, 0.0f);
    const bool inside_y = y > -1 && y < static_cast<float>(t.h);
    if (!(inside_y && x > -1 && x < static_cast<float>(t.wide))) return;
    const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
    const float weights[] = {(1 - down) * (1 - right), (1 - down) * right,
                             down * (1 - right), down * right};
    for (int i = 0; i < 4; ++i) {
      const int64_t row = static_cast<int64_t>(top) + i / 2;
      const int64_t column = static_cast<int64_t>(left) + i % 2;
      if (row < 0 || row >= t.h || column < 0 || column >= t.wide) continue;
      at[i] = row * t.wide + column;
      weight[i] = weights[i];
    }
  }
  int64_t at[4];
  float weight[4];
};

float sample(const Place& place, const float* plane) {
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    if (place.at[i] >= 0) sum += place.weight[i] * plane[place.at[i]];
  }
  return sum;
}

struct Naive {
  static void run(OrtKernelContext*, const Task& t) {
    const int64_t plane = t.h * t.wide;
    for (int64_t o = 0; o < t.o; ++o) {
      for (int64_t pixel = 0; pixel < plane; ++pixel) {
        float sum = 0;
        for (int64_t c = 0; c < t.c; ++c) {
          for (int64_t tap = 0; tap < 9; ++tap) {
            const float value = sample(Place(t, pixel, tap), t.x + c * plane);
            sum += t.w[(o * t.c + c) * 9 + tap] * value;
          }
        }
        t.y[o * plane + pixel] = sum;
      }
    }
  }
};

struct Hoisted {
  static void run(OrtKernelContext*, const Task& t) {
    const int64_t plane = t.h * t.wide;
    std::vector<float> column(t.c * 9);
    for (int64_t pixel = 0; pixel < plane; ++pixel) {
      for (int64_t tap = 0; tap < 9; ++tap) {
        const Place place(t, pixel, tap);
        for (int64_t c = 0; c < t.c; ++c) column[c * 9 + tap] = sample(place, t.x + c * plane);
      }
      for (int64_t o = 0; o < t.o; ++o) {
        float sum = 0;
        for (int64_t i = 0; i < t.c * 9; ++i) sum += t.w[o * t.c * 9 + i] * column[i];
        t.y[o * plane + pixel] = sum;
      }
    }
  }
};

struct Turned {  // the image as [h][wide][c], followed by one pixel of zeros
  explicit Turned(const Task& t) : image((t.h * t.wide + 1) * t.c) {
    for (int64_t c = 0; c < t.c; ++c) {
      for (int64_t i = 0; i < t.h * t.wide; ++i) image[i * t.c + c] = t.x[c * t.h * t.wide + i];
    }
  }
  std::vector<float> image;
};

// out[0 … count) = the channels from c on, at one place
[[gnu::always_inline]] inline void sample_all(const Task& t, const float* image,
                                              const Place& place, int64_t c, int64_t count,
                                              float* out) {
  const float* from[4];
  for (int i = 0; i < 4; ++i) {
    from[i] = image + (place.at[i] < 0 ? t.h * t.wide : place.at[i]) * t.c + c;
  }
  for (int64_t k = 0; k < count; ++k) {
    out[k] = place.weight[0] * from[0][k] + place.weight[1] * from[1][k] +
             place.weight[2] * from[2][k] + place.weight[3] * from[3][k];
  }
}

struct Vectorised {
  static void run(OrtKernelContext*, const Task& t) {
    const Turned turned(t);
    const int64_t plane = t.h * t.wide;
    std::vector<float> weights(9 * t.c * t.o), column(t.c), sums(t.o);  // weights [tap][c][o]
    for (int64_t i = 0; i < t.o * t.c * 9; ++i) {
      weights[(i % 9 * t.c + i / 9 % t.c) * t.o + i / 9 / t.c] = t.w[i];
    }
    for (int64_t pixel = 0; pixel < plane; ++pixel) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t tap = 0; tap < 9; ++tap) {
        sample_all(t, turned.image.data(), Place(t, pixel, tap), 0, t.c, column.data());
        for (int64_t c = 0; c < t.c; ++c) {
          const float *w = &weights[(tap * t.c + c) * t.o], scale = column[c];
          for (int64_t o = 0; o < t.o; ++o) sums[o] += scale * w[o];
        }
      }
      for (int64_t o = 0; o < t.o; ++o) t.y[o * plane + pixel] = sums[o];
    }
  }
};

constexpr int64_t kPixels = 48, kDepth = 64, kLanes = oplab::kPanel<float>;

// The pixels [first, first + pixels) in all output channels; weights are [panel][tap][c][lane].
struct Tile {
  template <oplab::Simd simd>
  [[gnu::always_inline]] static void run(const Task& t, const float* image,
                                         const float* weights, int64_t first, int64_t pixels,
                                         float* sums) {
    using Product = oplab::Product<float, simd, kDepth, kPixels>;
    const int64_t panels = (t.o + kLanes - 1) / kLanes;
    float samples[kPixels * kDepth] = {};  // rows that the last tile does not use count, too
    std::fill_n(sums, panels * kPixels * kLanes, 0.0f);
    for (int64_t tap = 0; tap < 9; ++tap) {
      for (int64_t c = 0; c < t.c; c += kDepth) {
        const int64_t depth = std::min(kDepth, t.c - c);
        for (int64_t p = 0; p < pixels; ++p) {
          sample_all(t, image, Place(t, first + p, tap), c, depth, samples + p * kDepth);
        }
        for (int64_t panel = 0; panel < panels; ++panel) {
          const float* w = weights + ((panel * 9 + tap) * t.c + c) * kLanes;
          Product::add(samples, pixels, depth, w, 1, sums + panel * kPixels * kLanes);
        }
      }
    }
    for (int64_t o = 0; o < t.o; ++o) {
      const float* sum = sums + o / kLanes * kPixels * kLanes + o % kLanes;
      for (int64_t p = 0; p < pixels; ++p) t.y[o * t.h * t.wide + first + p] = sum[p * kLanes];
    }
  }
};

template <bool parallel>
struct Blocked {
  static void run(OrtKernelContext* context, const Task& t) {
    const Turned turned(t);
    const int64_t plane = t.h * t.wide;
    const int64_t panels = (t.o + kLanes - 1) / kLanes, tiles = (plane + kPixels - 1) / kPixels;
    std::vector<float> weights(panels * 9 * t.c * kLanes);
    for (int64_t i = 0; i < t.o * t.c * 9; ++i) {
      const int64_t o = i / 9 / t.c, panel = o / kLanes;
      weights[((panel * 9 + i % 9) * t.c + i / 9 % t.c) * kLanes + o % kLanes] = t.w[i];
    }
    const oplab::Simd simd = oplab::chosen_simd();
    const auto work = [&](int64_t begin, int64_t end) {
      std::vector<float> sums(panels * kPixels * kLanes);  // scratch of this piece alone
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t first = tile * kPixels, pixels = std::min(kPixels, plane - first);
        oplab::run_vectorised<Tile>(simd, t, turned.image.data(), weights.data(), first, pixels,
                                    sums.data());
      }
    };
    oplab::parallel_for(context, tiles, parallel ? 1 : tiles, work);
  }
};

template <typename Step>
struct Deform {
  Deform(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, const Tensor<float>& w,
                      const Tensor<float>& offset, Tensor<float>& y) {
    const int64_t c = x.Shape()[1], h = x.Shape()[2], wide = x.Shape()[3], o = w.Shape()[0];
    float* out = y.Allocate({1, o, h, wide});
    Step::run(context, {x.Data(), w.Data(), offset.Data(), out, c, h, wide, o});
    return Ort::Status{nullptr};
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Deform<Naive>>(made, "Naive");
    oplab::add<Deform<Hoisted>>(made, "Hoisted");
    oplab::add<Deform<Vectorised>>(made, "Vectorised");
    oplab::add<Deform<Blocked<false>>>(made, "Blocked");
    oplab::add<Deform<Blocked<true>>>(made, "Parallel");
    return made;
  });
}
