// Bicubic resize of images, as ONNX's Resize with mode "cubic", cubic_coeff_a -0.75 and coordinate_transformation_mode
// "half_pixel". PyTorch's operator and ONNX Runtime's kernel both call this, so that their results and their error messages
// are the same.
//
// An output has floor(length * scale) pixels, multiplied in float32 as ONNX Runtime does: 10 pixels times 2.3 are 23. Pixel i
// is at (i + 0.5) / scale - 0.5 in the input, also if it is the only one. A pixel beyond a border is read as the border's
// pixel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "dynamic_parallel_for.h"
#include "text.h"

namespace oplab {

// `planes` contiguous planes of height x width, and their new size.
struct Images {
  int64_t planes, height, width, new_height, new_width;
  double scale_y, scale_x;
};

namespace resize {

using Shape = std::vector<int64_t>;

constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();
constexpr int64_t kColumns = 4096;  // of the output in one block, whose data stays in the cache
constexpr int64_t kFew = 32768;     // up to so many pixels are one piece: waking a second thread would cost more
constexpr int kTaps = 4;

// The four pixels along one dimension that contribute to an output pixel, and their weights.
template <typename T>
struct Taps {
  int32_t from[kTaps];
  T weight[kTaps];
};

// Keys' cubic convolution: 1981, "Cubic convolution interpolation for digital image processing", with a = -0.75.
template <typename T>
Taps<T> taps_of(int64_t pixel, double scale, int64_t length) {
  constexpr double a = -0.75;
  const double at = (static_cast<double>(pixel) + 0.5) / scale - 0.5;
  const double whole = std::floor(at), t = at - whole;
  const auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };           // 0 <= x <= 1
  const auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };  // 1 <= x <= 2
  const double weights[kTaps] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  Taps<T> taps;
  for (int k = 0; k < kTaps; ++k) {
    const double from = std::min(std::max(whole - 1 + k, 0.0), static_cast<double>(length - 1));
    taps.from[k] = static_cast<int32_t>(from);
    taps.weight[k] = static_cast<T>(weights[k]);
  }
  return taps;
}

// Checks what does not depend on the tensors' values.
template <typename Refuse>
void check_shapes(const Shape& x, const Shape& scales, const Refuse& refuse) {
  if (x.size() != 4) refuse("x must have the shape [N, C, H, W], but its shape is ", shape_text(x), ".");
  if (x[2] < 1 || x[3] < 1) refuse("x must have a height and a width of at least 1, but its shape is ", shape_text(x), ".");
  if (x[2] > kMostElements || x[3] > kMostElements) {
    refuse("x must have a height and a width below 2**31, but its shape is ", shape_text(x), ".");
  }
  if (scales != Shape{4}) refuse("scales must have the shape [4], but its shape is ", shape_text(scales), ".");
}

// floor(length * scale) in float32.
template <typename Refuse>
int64_t new_length(const Shape& x, const float* scales, int dimension, const Refuse& refuse) {
  const float scale = scales[dimension];
  const char* const what = dimension == 2 ? "high" : "wide";
  if (!std::isfinite(scale)) refuse("scales must be finite, but scales[", dimension, "] is ", scale, ".");
  if (!(scale > 0)) refuse("scales must be positive, but scales[", dimension, "] is ", scale, ".");
  const float length = std::floor(static_cast<float>(x[dimension]) * scale);
  if (length < 1) {
    refuse("scales[", dimension, "] is ", scale, ", which makes an empty image of one that is ", x[dimension], " ", what,
           ".");
  }
  if (!(length < static_cast<float>(kMostElements))) {
    refuse("scales[", dimension, "] is ", scale, ", which makes too large an image of one that is ", x[dimension], " ",
           what, ": y may have 2**31 - 1 elements.");
  }
  return static_cast<int64_t>(length);
}

// The sizes of the resized images. The shapes must have been checked.
template <typename Refuse>
Images plan(const Shape& x, const float* scales, const Refuse& refuse) {
  for (int k = 0; k < 2; ++k) {
    if (scales[k] != 1) refuse("scales must leave N and C as they are, but scales[", k, "] is ", scales[k], ".");
  }
  Images images{0, x[2], x[3], new_length(x, scales, 2, refuse), new_length(x, scales, 3, refuse), scales[2], scales[3]};
  const int64_t pixels = images.new_height * images.new_width;  // both below 2**31
  int64_t all;
  if (__builtin_mul_overflow(x[0], x[1], &images.planes) || __builtin_mul_overflow(images.planes, pixels, &all) ||
      pixels > kMostElements || all > kMostElements) {
    refuse("scales[2] is ", scales[2], " and scales[3] is ", scales[3], ", which make too large an image: y would have the ",
           "shape ", shape_text({x[0], x[1], images.new_height, images.new_width}), ", and it may have 2**31 - 1 elements.");
  }
  return images;
}

// Resizes one row of the input along x: taps[i] is that of output column i.
template <typename T>
void resize_row(const T* row, const Taps<T>* taps, int64_t count, T* resized) {
  for (int64_t i = 0; i < count; ++i) {
    const Taps<T>& t = taps[i];
    resized[i] = row[t.from[0]] * t.weight[0] + row[t.from[1]] * t.weight[1] + row[t.from[2]] * t.weight[2] +
                 row[t.from[3]] * t.weight[3];
  }
}

// How a tensor's pixels become numbers of type T, and back: here they are such numbers, and nothing is copied. Another class has
// another Pixel; its `read` fills `numbers` and returns it, its `place` returns `numbers`, and its `write` rounds them into `to`.
template <typename T>
struct AsTheyAre {
  using Pixel = T;
  static constexpr bool copies = false;
  const T* read(const T* from, int64_t /*count*/, T* /*numbers*/) const { return from; }
  T* place(T* to, T* /*numbers*/) const { return to; }
  void write(const T* /*numbers*/, int64_t /*count*/, T* /*to*/) const {}
};

// A cache of the last rows that were resized along x. Neighbouring output rows share most of their four input rows: if an
// image is enlarged, each row of the input is resized once.
template <typename T, typename Pixels>
class Rows {
 public:
  using Pixel = typename Pixels::Pixel;

  Rows(const Pixels& pixels, int64_t width, int64_t columns)
      : pixels_(pixels),
        width_(width),
        columns_(columns),
        values_(kTaps * columns),
        read_(Pixels::copies ? width : 0),
        written_(Pixels::copies ? columns : 0) {}

  const T* get(const Pixel* row, const Taps<T>* taps, int64_t count) {
    for (int slot = 0; slot < kTaps; ++slot) {
      if (holds_[slot] == row) return values_.data() + slot * columns_;
    }
    const int slot = next_;
    next_ = (next_ + 1) % kTaps;
    holds_[slot] = row;
    T* const resized = values_.data() + slot * columns_;
    resize_row(pixels_.read(row, width_, read_.data()), taps, count, resized);
    return resized;
  }

  void forget() { std::fill(holds_, holds_ + kTaps, nullptr); }

  // Where the numbers of a row of the output go before `write`.
  T* place(Pixel* to) { return pixels_.place(to, written_.data()); }
  void write(int64_t count, Pixel* to) const { pixels_.write(written_.data(), count, to); }

 private:
  const Pixels pixels_;
  const int64_t width_, columns_;
  std::vector<T> values_, read_, written_;
  const Pixel* holds_[kTaps] = {};
  int next_ = 0;
};

// The taps of columns [begin, begin + count) of the output.
template <typename T>
std::vector<Taps<T>> taps_along_x(const Images& images, int64_t begin, int64_t count) {
  std::vector<Taps<T>> taps(count);
  for (int64_t i = 0; i < count; ++i) {
    taps[i] = taps_of<T>(begin + i, images.scale_x, images.width);
  }
  return taps;
}

}  // namespace resize

// Writes y, the resized planes of x, computed in T.
//   pixels                               what x and y hold, see resize::AsTheyAre
//   parallel_for(size, piece, work)      calls work(begin, end) for the pieces of [0, size)
template <typename T, typename Pixels, typename ParallelFor>
void resize_pixels(const Images& images, const Pixels& pixels, const typename Pixels::Pixel* x, typename Pixels::Pixel* y,
                   const ParallelFor& parallel_for) {
  using namespace resize;
  if (images.planes == 0) return;
  const int64_t piece = kFew / std::min(images.new_width, kColumns);
  for (int64_t begin = 0; begin < images.new_width; begin += kColumns) {
    const int64_t count = std::min(kColumns, images.new_width - begin);
    const std::vector<Taps<T>> along_x = taps_along_x<T>(images, begin, count);
    dynamic_parallel_for(
        parallel_for, images.planes * images.new_height, piece,
        [&] { return Rows<T, Pixels>(pixels, images.width, count); },
        [&](int64_t first, int64_t last, Rows<T, Pixels>& rows) {
          rows.forget();
          for (int64_t row = first; row < last; ++row) {
            const auto* const plane = x + row / images.new_height * images.height * images.width;
            const Taps<T> t = taps_of<T>(row % images.new_height, images.scale_y, images.height);
            const T* from[kTaps];
            for (int k = 0; k < kTaps; ++k) from[k] = rows.get(plane + t.from[k] * images.width, along_x.data(), count);
            auto* const pixels_of_y = y + row * images.new_width + begin;
            T* const to = rows.place(pixels_of_y);
            for (int64_t i = 0; i < count; ++i) {
              to[i] = from[0][i] * t.weight[0] + from[1][i] * t.weight[1] + from[2][i] * t.weight[2] +
                      from[3][i] * t.weight[3];
            }
            rows.write(count, pixels_of_y);
          }
        });
  }
}

template <typename T, typename ParallelFor>
void resize_images(const Images& images, const T* x, T* y, const ParallelFor& parallel_for) {
  resize_pixels<T>(images, resize::AsTheyAre<T>{}, x, y, parallel_for);
}

// The transpose of resize_images: writes grad_x, given the gradient of y. One thread adds up a whole plane in a fixed order,
// so the sums do not depend on the number of threads.
template <typename T, typename ParallelFor>
void resize_images_backward(const Images& images, const T* grad_y, T* grad_x, const ParallelFor& parallel_for) {
  using namespace resize;
  const int64_t piece = std::max(kFew / (images.new_height * images.new_width), int64_t{1});
  std::fill(grad_x, grad_x + images.planes * images.height * images.width, T{0});
  for (int64_t begin = 0; begin < images.new_width; begin += kColumns) {
    const int64_t count = std::min(kColumns, images.new_width - begin);
    const std::vector<Taps<T>> along_x = taps_along_x<T>(images, begin, count);
    dynamic_parallel_for(
        parallel_for, images.planes, piece, [&] { return std::vector<T>(images.width); },
        [&](int64_t first, int64_t last, std::vector<T>& row) {
          for (int64_t r = first * images.new_height; r < last * images.new_height; ++r) {
            std::fill(row.begin(), row.end(), T{0});
            const T* const from = grad_y + r * images.new_width + begin;
            for (int64_t i = 0; i < count; ++i) {
              for (int k = 0; k < kTaps; ++k) row[along_x[i].from[k]] += from[i] * along_x[i].weight[k];
            }
            T* const plane = grad_x + r / images.new_height * images.height * images.width;
            const Taps<T> t = taps_of<T>(r % images.new_height, images.scale_y, images.height);
            for (int k = 0; k < kTaps; ++k) {
              T* const to = plane + t.from[k] * images.width;
              for (int64_t i = 0; i < images.width; ++i) to[i] += row[i] * t.weight[k];
            }
          }
        });
  }
}

}  // namespace oplab
