// oplab::DeformConv2d(X, W, offset, B?, mask?) -> Y, with the inputs, attributes and defaults of ONNX's DeformConv-19, for
// float and double and two spatial dimensions.
//
// The image is turned to channels-last once, so that one bilinear sample is four contiguous reads for all channels. The
// output is computed in tiles of pixels: a tile's samples make a small matrix that stays in the processor's cache, and are
// multiplied with the weights at once. A tile depends on nothing but the inputs, and so does every bit of the result.
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include "kernels.h"
#include "matrix_tile.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

using Sizes = std::vector<int64_t>;

constexpr int64_t kTile = 48;   // pixels of the output in one tile: a multiple of multiply_rows' rows
constexpr int64_t kDepth = 64;  // channels that are sampled at once
constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

int64_t product(int64_t a, int64_t b) {
  int64_t c;
  if (__builtin_mul_overflow(a, b, &c)) refuse("the sizes are too large: ", a, " x ", b, " is more than int64 can count.");
  return c;
}

// What the node's attributes say, two numbers each: along the height and along the width.
struct Window {
  explicit Window(const OrtKernelInfo* info)
      : kernel_shape(checked(info, "kernel_shape", 2, 1, Sizes{})),
        strides(checked(info, "strides", 2, 1, {1, 1})),
        dilations(checked(info, "dilations", 2, 1, {1, 1})),
        pads(checked(info, "pads", 4, 0, {0, 0, 0, 0})),
        group(positive(info, "group")),
        offset_group(positive(info, "offset_group")) {}

  // How many places the kernel has along one dimension of the image.
  int64_t places(int axis, int64_t image, int64_t kernel) const {
    const int64_t room = image + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel - 1) - 1;
    if (room < 0) {
      refuse("the kernel does not fit into the image: along the ", axis == 0 ? "height" : "width", " the image has ", image,
             ", the pads have ", pads[axis] + pads[axis + 2], " and the dilated kernel has ",
             dilations[axis] * (kernel - 1) + 1, ".");
    }
    return room / strides[axis] + 1;
  }

  const Sizes kernel_shape;  // empty where the model leaves it to W
  const Sizes strides, dilations, pads;
  const int64_t group, offset_group;

 private:
  static Sizes checked(const OrtKernelInfo* info, const char* name, size_t count, int64_t least, const Sizes& otherwise) {
    const Sizes given = ints_attribute(info, name, otherwise);
    if (given.empty() && otherwise.empty()) return given;
    if (given.size() != count) {
      refuse("the attribute ", name, " must have ", count, " values, but it is ", shape_text(given), ".");
    }
    for (int64_t value : given) {
      if (value < least || value > kLargest) {
        refuse("each value of the attribute ", name, " must be between ", least, " and ", kLargest, ", but it is ",
               shape_text(given), ".");
      }
    }
    return given;
  }

  static int64_t positive(const OrtKernelInfo* info, const char* name) {
    const int64_t given = int_attribute(info, name, 1);
    if (given < 1 || given > kLargest) {
      refuse("the attribute ", name, " must be between 1 and ", kLargest, ", but it is ", given, ".");
    }
    return given;
  }
};

// The sizes of one call, all checked.
struct Call {
  Call(const Window& window, const Sizes& x, const Sizes& w) {
    if (x.size() != 4) refuse("X must have 4 dimensions [N, C, H, W], but its shape is ", shape_text(x), ".");
    if (w.size() != 4) refuse("W must have 4 dimensions [oC, C/group, kH, kW], but its shape is ", shape_text(w), ".");
    n = x[0], channels = x[1], height = x[2], width = x[3];
    out_channels = w[0], kernel_h = w[2], kernel_w = w[3];
    for (int64_t size : {channels, height, width, out_channels, kernel_h, kernel_w}) {
      if (size < 1 || size > kLargest) {
        refuse("all sizes but N must be between 1 and ", kLargest, ", but X is ", shape_text(x), " and W is ", shape_text(w),
               ".");
      }
    }
    if (!window.kernel_shape.empty() && window.kernel_shape != Sizes{kernel_h, kernel_w}) {
      refuse("the attribute kernel_shape is ", shape_text(window.kernel_shape), ", but W is ", shape_text(w), ".");
    }
    if (channels % window.group != 0 || out_channels % window.group != 0) {
      refuse("the attribute group must divide the channels of X and of the output, but group is ", window.group, ", X is ",
             shape_text(x), " and W is ", shape_text(w), ".");
    }
    if (w[1] != channels / window.group) {
      refuse("W must have ", channels / window.group, " channels for each of the ", window.group, " groups of X's ", channels,
             ", but its shape is ", shape_text(w), ".");
    }
    if (channels % window.offset_group != 0) {
      refuse("the attribute offset_group must divide the channels of X, but offset_group is ", window.offset_group,
             " and X is ", shape_text(x), ".");
    }
    taps = product(kernel_h, kernel_w);
    out_h = window.places(0, height, kernel_h);
    out_w = window.places(1, width, kernel_w);
    out_pixels = product(out_h, out_w);
  }

  Sizes offset_shape(const Window& window) const {
    return {n, product(product(window.offset_group, taps), 2), out_h, out_w};
  }
  Sizes mask_shape(const Window& window) const { return {n, product(window.offset_group, taps), out_h, out_w}; }

  // Vectors that hold the output channels of one group.
  int64_t panels(const Window& window, int64_t lanes) const { return (out_channels / window.group + lanes - 1) / lanes; }

  // How many channels from `channel` on share one weight group and one offset group, kDepth at most.
  int64_t run_of_channels(const Window& window, int64_t channel) const {
    const int64_t depth = channels / window.group, shared = channels / window.offset_group;
    return std::min({kDepth, depth - channel % depth, shared - channel % shared});
  }

  int64_t n, channels, height, width;
  int64_t out_channels, kernel_h, kernel_w, taps;
  int64_t out_h, out_w, out_pixels;
};

void check_shape(const char* name, const Sizes& shape, const Sizes& wanted) {
  if (shape != wanted) refuse(name, " must have the shape ", shape_text(wanted), ", but it is ", shape_text(shape), ".");
}

// The inputs, with X and W in the order in which they are read.
template <typename T>
struct Operands {
  const T* image;    // X as [N, H, W, C], and behind it one pixel of zeros for what lies outside
  const T* outside;  // that pixel
  const T* weights;  // W as [group][panel][kH * kW][C/group][lanes]: a panel is a vector of output channels
  const T *offset, *bias, *mask;  // as in the model; bias and mask may be null
  T* y;
};

// out[0 ... count) = the channels-last image at (y, x), which may lie between four pixels. A pixel outside is zero.
template <typename T>
[[gnu::always_inline]] inline void sample(const T* image, const T* outside, const Call& call, T y, T x, T scale,
                                          int64_t count, T* out) {
  if (std::isnan(y) || std::isnan(x)) {
    std::fill_n(out, count, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  if (!(y > -1 && y < static_cast<T>(call.height) && x > -1 && x < static_cast<T>(call.width))) {
    std::fill_n(out, count, 0 * scale);
    return;
  }
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  const T down = y - static_cast<T>(top), right = x - static_cast<T>(left);
  const bool has_top = top >= 0, has_bottom = top + 1 < call.height;
  const bool has_left = left >= 0, has_right = left + 1 < call.width;
  const int64_t first = (top * call.width + left) * call.channels;
  const T* top_left = has_top && has_left ? image + first : outside;
  const T* top_right = has_top && has_right ? image + first + call.channels : outside;
  const T* bottom_left = has_bottom && has_left ? image + first + call.width * call.channels : outside;
  const T* bottom_right = has_bottom && has_right ? image + first + (call.width + 1) * call.channels : outside;
  const T w0 = (1 - down) * (1 - right), w1 = (1 - down) * right, w2 = down * (1 - right), w3 = down * right;
  for (int64_t c = 0; c < count; ++c) {
    out[c] = scale * (w0 * top_left[c] + w1 * top_right[c] + w2 * bottom_left[c] + w3 * bottom_right[c]);
  }
}

// Computes one tile of the output: `pixels` pixels of image n from `first` on, for all output channels.
//   sums     scratch, [panels of one group][kTile][lanes]
struct Tile {
  template <typename T, int rows>
  [[gnu::always_inline]] static void run(const Window& window, const Call& call, const Operands<T>& in, int64_t n,
                                         int64_t first, int64_t pixels, T* sums) {
    constexpr int64_t lanes = Vector<T>::lanes;
    const int64_t depth = call.channels / window.group, panels = call.panels(window, lanes);
    T samples[kTile * kDepth] = {};
    for (int64_t group = 0; group < window.group; ++group) {
      std::fill_n(sums, panels * kTile * lanes, T(0));
      for (int64_t tap = 0; tap < call.taps; ++tap) {
        for (int64_t c = 0, count; c < depth; c += count) {
          count = call.run_of_channels(window, group * depth + c);
          sample_tile(window, call, in, n, first, pixels, tap, group * depth + c, count, samples);
          for (int64_t panel = 0; panel < panels; ++panel) {
            const T* weights = in.weights + (((group * panels + panel) * call.taps + tap) * depth + c) * lanes;
            for (int64_t pixel = 0; pixel < pixels; pixel += rows) {
              multiply_rows<T, rows, kDepth>(samples + pixel * kDepth, count, weights,
                                             sums + (panel * kTile + pixel) * lanes);
            }
          }
        }
      }
      store(window, call, in, n, first, pixels, group, sums);
    }
  }

  // Writes the sums of one group with the bias, channels first again.
  template <typename T>
  [[gnu::always_inline]] static void store(const Window& window, const Call& call, const Operands<T>& in, int64_t n,
                                           int64_t first, int64_t pixels, int64_t group, const T* sums) {
    constexpr int64_t lanes = Vector<T>::lanes;
    const int64_t count = call.out_channels / window.group;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t channel = group * count + i;
      const T* sum = sums + i / lanes * kTile * lanes + i % lanes;
      const T bias = in.bias ? in.bias[channel] : 0;
      T* y = in.y + (n * call.out_channels + channel) * call.out_pixels + first;
      for (int64_t pixel = 0; pixel < pixels; ++pixel) y[pixel] = sum[pixel * lanes] + bias;
    }
  }

  // Where the kernel's place `tap` looks for each pixel of the tile, for `count` channels from `channel` on.
  template <typename T>
  [[gnu::always_inline]] static void sample_tile(const Window& window, const Call& call, const Operands<T>& in, int64_t n,
                                                 int64_t first, int64_t pixels, int64_t tap, int64_t channel,
                                                 int64_t count, T* samples) {
    const T* image = in.image + n * call.height * call.width * call.channels + channel;
    const int64_t offset_group = channel / (call.channels / window.offset_group);
    const int64_t plane = (n * window.offset_group + offset_group) * call.taps + tap;
    const T* down = in.offset + plane * 2 * call.out_pixels + first;
    const T* right = down + call.out_pixels;
    const T* mask = in.mask ? in.mask + plane * call.out_pixels + first : nullptr;
    const int64_t tap_y = tap / call.kernel_w * window.dilations[0] - window.pads[0];
    const int64_t tap_x = tap % call.kernel_w * window.dilations[1] - window.pads[1];
    int64_t row = first / call.out_w, column = first % call.out_w;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const T y = static_cast<T>(row * window.strides[0] + tap_y) + down[pixel];
      const T x = static_cast<T>(column * window.strides[1] + tap_x) + right[pixel];
      sample(image, in.outside, call, y, x, mask ? mask[pixel] : T(1), count, samples + pixel * kDepth);
      if (++column == call.out_w) ++row, column = 0;
    }
  }
};

template <typename T>
struct DeformConv2d {
  using Optional = std::optional<const Tensor<T>*>;

  DeformConv2d(const OrtApi*, const OrtKernelInfo* info) : window(info) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& x, const Tensor<T>& w, const Tensor<T>& offset,
                      Optional bias, Optional mask, Tensor<T>& y) {
    const Call call(window, x.Shape(), w.Shape());
    check_shape("offset", offset.Shape(), call.offset_shape(window));
    if (bias) check_shape("B", (*bias)->Shape(), {call.out_channels});
    if (mask) check_shape("mask", (*mask)->Shape(), call.mask_shape(window));

    const auto data = [](const Optional& given) { return given ? (*given)->Data() : nullptr; };
    T* out = y.Allocate({call.n, call.out_channels, call.out_h, call.out_w});
    const std::unique_ptr<T[]> image = channels_last(context, call, x.Data());
    const std::unique_ptr<T[]> weights = in_panels(context, call, w.Data());
    const T* outside = image.get() + call.n * call.height * call.width * call.channels;
    const Operands<T> in{image.get(), outside, weights.get(), offset.Data(), data(bias), data(mask), out};

    const int64_t tiles = (call.out_pixels + kTile - 1) / kTile;
    std::atomic<bool> has_memory{true};
    parallel_for(context, call.n * tiles, 1, [&](int64_t begin, int64_t end) {
      const int64_t sums = call.panels(window, lanes) * kTile * lanes;
      const std::unique_ptr<T[]> scratch(new (std::nothrow) T[sums]);  // an exception may not leave this loop
      if (!scratch) has_memory = false;
      for (int64_t tile = begin; scratch && tile < end; ++tile) {
        const int64_t first = tile % tiles * kTile, pixels = std::min(kTile, call.out_pixels - first);
        run_vectorised<Tile, T>(window, call, in, tile / tiles, first, pixels, scratch.get());
      }
    });
    if (!has_memory) refuse("there is not enough memory for ", call.out_channels, " output channels.");
    return Ort::Status{nullptr};
  }

  // Of the attributes nothing is needed: offset has the height and the width of the output.
  static void InferShapes(Shapes& shapes) {
    const Shapes::Dims x = shapes.dims(0), w = shapes.dims(1), offset = shapes.dims(2);
    if (x.size() == 4 && w.size() == 4 && offset.size() == 4) {
      shapes.set(0, shapes.type(0), {x[0], w[0], offset[2], offset[3]});
    }
  }

 private:
  static constexpr int64_t lanes = Vector<T>::lanes;

  static std::unique_ptr<T[]> channels_last(OrtKernelContext* context, const Call& call, const T* x) {
    const int64_t channels = call.channels, width = call.width, plane = call.height * width;
    std::unique_ptr<T[]> image(new T[(call.n * plane + 1) * channels]);
    std::fill_n(image.get() + call.n * plane * channels, channels, T(0));
    parallel_for(context, call.n * call.height, 4, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x + row / call.height * channels * plane + row % call.height * width;
        T* to = image.get() + row * width * channels;
        for (int64_t i = 0; i < width; i += 16) {  // blocks of 16 by 16: each line of the cache is used as a whole
          for (int64_t c = 0; c < channels; c += 16) {
            for (int64_t j = i; j < std::min(i + 16, width); ++j) {
              for (int64_t d = c; d < std::min(c + 16, channels); ++d) to[j * channels + d] = from[d * plane + j];
            }
          }
        }
      }
    });
    return image;
  }

  std::unique_ptr<T[]> in_panels(OrtKernelContext* context, const Call& call, const T* w) const {
    const int64_t depth = call.channels / window.group, group_channels = call.out_channels / window.group;
    const int64_t panels = call.panels(window, lanes), size = call.taps * depth * lanes;
    std::unique_ptr<T[]> weights(new T[window.group * panels * size]);
    parallel_for(context, window.group * panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t first = panel % panels * lanes;  // of the group's output channels
        const T* from = w + (panel / panels * group_channels + first) * depth * call.taps;
        T* to = weights.get() + panel * size;
        for (int64_t tap = 0; tap < call.taps; ++tap) {
          for (int64_t c = 0; c < depth; ++c) {
            for (int64_t lane = 0; lane < lanes; ++lane) {
              *to++ = first + lane < group_channels ? from[(lane * depth + c) * call.taps + tap] : T(0);
            }
          }
        }
      }
    });
    return weights;
  }

  const Window window;
};

}  // namespace

void add_deform_conv2d(Ort::CustomOpDomain& domain) {
  static const Op<DeformConv2d<float>> for_float{"DeformConv2d"};
  static const Op<DeformConv2d<double>> for_double{"DeformConv2d"};
  domain.Add(&for_float);
  domain.Add(&for_double);
}

}  // namespace oplab
