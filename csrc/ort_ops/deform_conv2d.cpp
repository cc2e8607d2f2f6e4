// oplab::DeformConv2d(X, W, offset, B?, mask?) -> Y, with the inputs, attributes and defaults of ONNX's DeformConv-19, for
// float and double and two spatial dimensions.
//
// The image is converted to channels-last once, so that one bilinear sample is four contiguous reads for all channels. The
// output is computed in tiles of pixels: the samples of a tile are a small matrix that stays in the cache and is multiplied
// by the weights. The order of the additions in a sum does not depend on the tiles, so the result is bit-identical for any
// number of threads. It depends on the inputs and on the instruction set alone.
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

constexpr int64_t kTile = 64;             // pixels of the output in one tile, at most; a multiple of 4
constexpr int64_t kDepth = 128;           // terms of a sum that are sampled at once
constexpr int64_t kStride = kDepth + 16;  // from one pixel's samples to the next: the last vector of a run may extend past kDepth
constexpr int64_t kPanels = 16;           // vectors of output channels in one part, if there is only one tile
constexpr int64_t kLargest = int64_t{1} << 29;  // of sizes and attributes: a place in a padded image then fits into int32

int64_t product(int64_t a, int64_t b) {
  int64_t c;
  if (__builtin_mul_overflow(a, b, &c)) refuse("the sizes are too large: ", a, " x ", b, " does not fit into int64.");
  return c;
}

// The node's attributes, checked. Those with two values have one for the height and one for the width.
struct Window {
  explicit Window(const OrtKernelInfo* info)
      : kernel_shape(checked(info, "kernel_shape", 2, 1, Sizes{})),
        strides(checked(info, "strides", 2, 1, {1, 1})),
        dilations(checked(info, "dilations", 2, 1, {1, 1})),
        pads(checked(info, "pads", 4, 0, {0, 0, 0, 0})),
        group(positive(info, "group")),
        offset_group(positive(info, "offset_group")) {}

  // The output's size along one dimension of the image.
  int64_t output_size(int axis, int64_t image, int64_t kernel) const {
    const int64_t span = image + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel - 1) - 1;
    if (span < 0) {
      refuse("the kernel does not fit into the image: along the ", axis == 0 ? "height" : "width", " the image has ", image,
             ", the pads have ", pads[axis] + pads[axis + 2], " and the dilated kernel has ",
             dilations[axis] * (kernel - 1) + 1, ".");
    }
    return span / strides[axis] + 1;
  }

  const Sizes kernel_shape;  // empty if the model does not set it: W has it too
  const Sizes strides, dilations, pads;
  const int64_t group, offset_group;

 private:
  static Sizes checked(const OrtKernelInfo* info, const char* name, size_t count, int64_t least, const Sizes& default_value) {
    const Sizes values = ints_attribute(info, name, default_value);
    if (values.empty() && default_value.empty()) return values;
    if (values.size() != count) {
      refuse("the attribute ", name, " must have ", count, " values, but it is ", shape_text(values), ".");
    }
    for (int64_t value : values) {
      if (value < least || value > kLargest) {
        refuse("each value of the attribute ", name, " must be between ", least, " and ", kLargest, ", but it is ",
               shape_text(values), ".");
      }
    }
    return values;
  }

  static int64_t positive(const OrtKernelInfo* info, const char* name) {
    const int64_t value = int_attribute(info, name, 1);
    if (value < 1 || value > kLargest) {
      refuse("the attribute ", name, " must be between 1 and ", kLargest, ", but it is ", value, ".");
    }
    return value;
  }
};

// The sizes of W.
struct Filter {
  Filter() = default;
  Filter(const Window& window, const Sizes& w) : groups(window.group), channels(w[0] / groups), depth(w[1]), taps(w[2] * w[3]) {}

  int64_t panels(int64_t lanes) const { return (channels + lanes - 1) / lanes; }  // vectors that hold a group's channels
  int64_t terms() const { return taps * depth; }                                  // products in one sum

  int64_t groups, channels, depth, taps;  // channels of the output and of the input in one group; kH * kW
};

// The sizes of one call, checked.
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
    filter = Filter(window, w);
    taps = product(kernel_h, kernel_w);
    out_h = window.output_size(0, height, kernel_h);
    out_w = window.output_size(1, width, kernel_w);
    out_pixels = product(out_h, out_w);
  }

  Sizes offset_shape(const Window& window) const {
    return {n, product(product(window.offset_group, taps), 2), out_h, out_w};
  }
  Sizes mask_shape(const Window& window) const { return {n, product(window.offset_group, taps), out_h, out_w}; }

  int64_t n, channels, height, width;
  int64_t out_channels, kernel_h, kernel_w, taps;
  Filter filter;
  int64_t out_h, out_w, out_pixels;
};

void check_shape(const char* name, const Sizes& shape, const Sizes& wanted) {
  if (shape != wanted) refuse(name, " must have the shape ", shape_text(wanted), ", but it is ", shape_text(shape), ".");
}

// The inputs, with X and W in the layout in which they are read.
template <typename T>
struct Operands {
  const T* image;    // X as [N, H, W, C], followed by zeros: one pixel and one vector
  int64_t outside;   // index of these zeros, which are read for pixels outside of the image
  const T* weights;  // W in the layout of Pack
  const T *offset, *bias, *mask;  // as in the model; bias and mask are null if absent
  T* y;
};

// A unit of work: some pixels of one image of the output, for some panels of each group.
struct Part {
  int64_t n, first, pixels, panel, panels;
};

// Divides the output into parts. A small number of tiles is rounded up to a multiple of four, which divides evenly among two
// or four threads; a single tile is divided along the channels.
struct Parts {
  Parts(const Call& call, int64_t all_panels) : all(all_panels), pixels(call.out_pixels) {
    tiles = (pixels + kTile - 1) / kTile;
    if (tiles > 2 && tiles < 32) tiles = (tiles + 3) / 4 * 4;
    panels = call.n * tiles > 1 ? all : std::min(all, kPanels);
    cuts = (all + panels - 1) / panels;
    count = call.n * tiles * cuts;
  }

  Part operator[](int64_t i) const {
    const int64_t panel = i % cuts * panels, tile = i / cuts % tiles;
    const int64_t first = begin(tile);
    return {i / cuts / tiles, first, begin(tile + 1) - first, panel, std::min(panels, all - panel)};
  }

  // All tiles but the last have a multiple of four pixels, so that no row of a product is wasted.
  int64_t begin(int64_t tile) const { return std::min(pixels, (tile * pixels / tiles + 3) / 4 * 4); }

  int64_t all, pixels;                 // panels and pixels of one image
  int64_t tiles, panels, cuts, count;  // tiles of one image; panels of one part; parts of one tile; all parts
};

// Writes X as [N, H, W, C]: pixels [begin, end) of image n.
struct ChannelsLast {
  template <Simd simd, typename T>
  [[gnu::always_inline]] static void run(const Call& call, const T* x, T* image, int64_t n, int64_t begin, int64_t end) {
    const int64_t plane = call.height * call.width, from = n * call.channels * plane;
    Transpose<T, simd>::run(x + from + begin, plane, call.channels, end - begin, image + from + begin * call.channels,
                            call.channels);
  }
};

// Packs W as [group][kDepth terms][panel][term][lanes]. A term is one kernel position (a tap) and one input channel.
struct Pack {
  template <Simd simd, typename T>
  [[gnu::always_inline]] static void run(const Filter& filter, const T* w, T* to, int64_t group, int64_t panel) {
    constexpr int64_t lanes = kPanel<T>, kBlock = 64;
    const int64_t terms = filter.terms(), panels = filter.panels(lanes);
    const int64_t first = panel * lanes, rows = std::min(lanes, filter.channels - first);
    const T* from = w + (group * filter.channels + first) * terms;
    to += group * panels * terms * lanes;
    alignas(64) T block[kBlock * lanes] = {};
    for (int64_t at = 0; at < terms; at += kBlock) {
      const int64_t count = std::min(kBlock, terms - at);
      Transpose<T, simd>::run(from + at, terms, rows, count, block, lanes);
      int64_t c = at / filter.taps, tap = at % filter.taps;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t term = tap * filter.depth + c, begin = term / kDepth * kDepth;
        const int64_t place = panels * begin + panel * std::min(kDepth, terms - begin) + term - begin;
        std::memcpy(to + place * lanes, block + i * lanes, lanes * sizeof(T));
        if (++tap == filter.taps) ++c, tap = 0;
      }
    }
  }
};

// Where one tap samples the image for each pixel of a part: the four pixels around the sampling point, their bilinear
// weights, and the mask.
template <typename T>
struct SamplingPoints {
  int32_t row[kTile], column[kTile];  // of the output, times the stride
  T y[kTile], x[kTile];               // in the image
  int32_t top[kTile], left[kTile];    // the pixel above and to the left of it
  int64_t corner[4][kTile];           // indices into Operands::image
  T bilinear[4][kTile], mask[kTile];
};

// Computes one part. For each group and each tap: locate the pixels to read, sample them, multiply the samples by the weights.
//   sums     scratch, [panels of the part][kTile][lanes]
struct Tile {
  template <Simd simd, typename T>
  [[gnu::always_inline]] static void run(const Window& window, const Call& call, const Operands<T>& in, const Part& part,
                                         T* sums) {
    constexpr int64_t lanes = kPanel<T>;
    const Filter& filter = call.filter;
    const int64_t shared = call.channels / window.offset_group, terms = filter.terms(), panels = filter.panels(lanes);
    alignas(64) T samples[kTile * kStride];
    std::fill_n(samples + part.pixels * kStride, (kTile - part.pixels) * kStride, T(0));  // blocks of rows may extend past them
    alignas(64) SamplingPoints<T> points;
    number_pixels(window, call, part, points);
    for (int64_t group = 0; group < window.group; ++group) {
      start_with_bias(call, in, part, group, sums);
      int64_t located = -1;
      for (int64_t begin = 0; begin < terms; begin += kDepth) {
        const int64_t count = std::min(kDepth, terms - begin);
        // A run of terms has one tap, and channels that share their offsets.
        for (int64_t i = 0, run; i < count; i += run) {
          const int64_t tap = (begin + i) / filter.depth, c = (begin + i) % filter.depth, channel = group * filter.depth + c;
          const int64_t plane = channel / shared * call.taps + tap;
          run = std::min({count - i, filter.depth - c, shared - channel % shared});
          if (plane != located) locate(window, call, in, part, channel / shared, tap, points);
          located = plane;
          sample<simd>(in.image + channel, points, part.pixels, run, samples + i);
        }
        const T* weights = in.weights + (panels * (group * terms + begin) + part.panel * count) * lanes;
        Product<T, simd, kStride, kTile>::add(samples, part.pixels, count, weights, part.panels, sums);
      }
      store<simd>(call, in, part, group, sums);
    }
  }

  template <typename T>
  [[gnu::always_inline]] static void number_pixels(const Window& window, const Call& call, const Part& part,
                                                   SamplingPoints<T>& points) {
    int64_t row = part.first / call.out_w, column = part.first % call.out_w;
    for (int64_t pixel = 0; pixel < part.pixels; ++pixel) {
      points.row[pixel] = static_cast<int32_t>(row * window.strides[0]);
      points.column[pixel] = static_cast<int32_t>(column * window.strides[1]);
      if (++column == call.out_w) ++row, column = 0;
    }
  }

  template <typename T>
  [[gnu::always_inline]] static void start_with_bias(const Call& call, const Operands<T>& in, const Part& part,
                                                     int64_t group, T* sums) {
    constexpr int64_t lanes = kPanel<T>;
    const int64_t count = call.filter.channels;
    for (int64_t panel = 0; panel < part.panels; ++panel, sums += kTile * lanes) {
      const int64_t first = (part.panel + panel) * lanes;
      T bias[lanes] = {};
      if (in.bias) std::copy_n(in.bias + group * count + first, std::min(lanes, count - first), bias);
      for (int64_t pixel = 0; pixel < kTile; ++pixel) std::memcpy(sums + pixel * lanes, bias, sizeof(bias));
    }
  }

  // For a number that fits into int32: AVX2 converts to and from int64 only one number at a time.
  template <typename T>
  [[gnu::always_inline]] static int32_t floor(T number) {
    const auto towards_zero = static_cast<int32_t>(number);
    return towards_zero - (static_cast<T>(towards_zero) > number ? 1 : 0);
  }

  // Without branches, so that the compiler vectorises over pixels. A sampling point outside of the image is moved to (-2,
  // -2), which has no pixels around it. A NaN in an offset sets the mask to NaN.
  template <typename T>
  [[gnu::always_inline]] static void locate(const Window& window, const Call& call, const Operands<T>& in,
                                            const Part& part, int64_t offset_group, int64_t tap,
                                            SamplingPoints<T>& at) {
    const int64_t plane = (part.n * window.offset_group + offset_group) * call.taps + tap;
    const T* down = in.offset + plane * 2 * call.out_pixels + part.first;
    const T* right = down + call.out_pixels;
    const auto tap_y = static_cast<int32_t>(tap / call.kernel_w * window.dilations[0] - window.pads[0]);
    const auto tap_x = static_cast<int32_t>(tap % call.kernel_w * window.dilations[1] - window.pads[1]);
    const T bottom = static_cast<T>(call.height), end = static_cast<T>(call.width);
    for (int64_t pixel = 0; pixel < part.pixels; ++pixel) {
      const T y = static_cast<T>(at.row[pixel] + tap_y) + down[pixel];
      const T x = static_cast<T>(at.column[pixel] + tap_x) + right[pixel];
      const bool inside = (y > -1) & (y < bottom) & (x > -1) & (x < end);
      at.y[pixel] = inside ? y : T(-2);
      at.x[pixel] = inside ? x : T(-2);
      at.mask[pixel] = ((y == y) & (x == x)) ? T(1) : std::numeric_limits<T>::quiet_NaN();
    }
    for (int64_t pixel = 0; pixel < part.pixels; ++pixel) {
      const int32_t row = floor(at.y[pixel]), column = floor(at.x[pixel]);
      const T low = at.y[pixel] - static_cast<T>(row), far = at.x[pixel] - static_cast<T>(column);
      at.bilinear[0][pixel] = (1 - low) * (1 - far);
      at.bilinear[1][pixel] = (1 - low) * far;
      at.bilinear[2][pixel] = low * (1 - far);
      at.bilinear[3][pixel] = low * far;
      at.top[pixel] = row;
      at.left[pixel] = column;
    }
    const auto height = static_cast<uint64_t>(call.height), width = static_cast<uint64_t>(call.width);
    const int64_t channels = call.channels, line = call.width * channels, outside = in.outside;
    const int64_t image = part.n * call.height * line;
    for (int64_t pixel = 0; pixel < part.pixels; ++pixel) {
      const int64_t row = at.top[pixel], column = at.left[pixel];
      const int64_t first = image + row * line + column * channels;
      const bool top = static_cast<uint64_t>(row) < height, bottom = static_cast<uint64_t>(row + 1) < height;
      const bool left = static_cast<uint64_t>(column) < width, right = static_cast<uint64_t>(column + 1) < width;
      at.corner[0][pixel] = (top & left) ? first : outside;
      at.corner[1][pixel] = (top & right) ? first + channels : outside;
      at.corner[2][pixel] = (bottom & left) ? first + line : outside;
      at.corner[3][pixel] = (bottom & right) ? first + line + channels : outside;
    }
    if (!in.mask) return;
    const T* mask = in.mask + plane * call.out_pixels + part.first;
    for (int64_t pixel = 0; pixel < part.pixels; ++pixel) at.mask[pixel] *= mask[pixel];
  }

  // samples[pixel][0 ... count) = the bilinear samples of `count` channels, the first of which is at `image`. Whole vectors
  // are read and written: the surplus is overwritten by the next run, or never used.
  template <Simd simd, typename T>
  [[gnu::always_inline]] static void sample(const T* image, const SamplingPoints<T>& at, int64_t pixels, int64_t count,
                                            T* samples) {
    OPLAB_FUSED_SUMS
    using V = typename Vector<T, simd>::type;
    for (int64_t pixel = 0; pixel < pixels; ++pixel, samples += kStride) {
      const V w0 = V{} + at.bilinear[0][pixel], w1 = V{} + at.bilinear[1][pixel], w2 = V{} + at.bilinear[2][pixel];
      const V w3 = V{} + at.bilinear[3][pixel], mask = V{} + at.mask[pixel];
      const T *top_left = image + at.corner[0][pixel], *top_right = image + at.corner[1][pixel];
      const T *bottom_left = image + at.corner[2][pixel], *bottom_right = image + at.corner[3][pixel];
      for (int64_t c = 0; c < count; c += Vector<T, simd>::lanes) {
        V a, b, d, e;
        std::memcpy(&a, top_left + c, sizeof(V));
        std::memcpy(&b, top_right + c, sizeof(V));
        std::memcpy(&d, bottom_left + c, sizeof(V));
        std::memcpy(&e, bottom_right + c, sizeof(V));
        const V sampled = mask * (w0 * a + w1 * b + w2 * d + w3 * e);
        std::memcpy(samples + c, &sampled, sizeof(V));
      }
    }
  }

  // Writes the sums of one group to y, channels first.
  template <Simd simd, typename T>
  [[gnu::always_inline]] static void store(const Call& call, const Operands<T>& in, const Part& part, int64_t group,
                                           const T* sums) {
    constexpr int64_t lanes = kPanel<T>;
    const int64_t count = call.filter.channels;
    for (int64_t panel = 0; panel < part.panels; ++panel, sums += kTile * lanes) {
      const int64_t first = (part.panel + panel) * lanes;
      T* y = in.y + (part.n * call.out_channels + group * count + first) * call.out_pixels + part.first;
      Transpose<T, simd>::run(sums, lanes, part.pixels, std::min(lanes, count - first), y, call.out_pixels);
    }
  }
};

// Memory aligned to a cache line, so that no vector crosses two lines.
struct Free {
  void operator()(void* memory) const { ::operator delete(memory, std::align_val_t{64}); }
};
template <typename T>
using Buffer = std::unique_ptr<T[], Free>;

template <typename T>
T* allocate(int64_t count, const std::nothrow_t& nothrow) noexcept {
  return static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), std::align_val_t{64}, nothrow));
}
template <typename T>
Buffer<T> allocate(int64_t count) {
  return Buffer<T>(static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), std::align_val_t{64})));
}

template <typename T>
struct DeformConv2d {
  using Optional = std::optional<const Tensor<T>*>;

  // Weights that are constants of the model, as in a deployed one, are packed once.
  DeformConv2d(const OrtApi*, const OrtKernelInfo* info) : window(info) {
    int is_constant = 0;
    const Ort::ConstValue w = Ort::ConstKernelInfo(info).GetTensorConstantInput(1, &is_constant);
    if (!is_constant) return;
    const Sizes shape = w.GetTensorTypeAndShapeInfo().GetShape();
    const bool fits = shape.size() == 4 && shape[0] % window.group == 0;  // otherwise Compute returns an error
    if (fits) constant_weights = pack(nullptr, Filter(window, shape), w.GetTensorData<T>());
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& x, const Tensor<T>& w, const Tensor<T>& offset,
                      Optional bias, Optional mask, Tensor<T>& y) {
    const Call call(window, x.Shape(), w.Shape());
    check_shape("offset", offset.Shape(), call.offset_shape(window));
    if (bias) check_shape("B", (*bias)->Shape(), {call.out_channels});
    if (mask) check_shape("mask", (*mask)->Shape(), call.mask_shape(window));

    const auto data = [](const Optional& input) { return input ? (*input)->Data() : nullptr; };
    T* out = y.Allocate({call.n, call.out_channels, call.out_h, call.out_w});
    const Buffer<T> image = channels_last(context, call, x.Data());
    const Buffer<T> own_weights = constant_weights ? nullptr : pack(context, call.filter, w.Data());
    const T* weights = constant_weights ? constant_weights.get() : own_weights.get();
    const int64_t outside = call.n * call.channels * call.height * call.width;
    const Operands<T> in{image.get(), outside, weights, offset.Data(), data(bias), data(mask), out};

    const Parts parts(call, call.filter.panels(lanes));
    std::atomic<bool> has_memory{true};
    parallel_for(context, parts.count, 1, [&](int64_t begin, int64_t end) {
      // nothrow, so that the message below is returned and not that of std::bad_alloc.
      const Buffer<T> sums(allocate<T>(parts.panels * kTile * lanes, std::nothrow));
      if (!sums) has_memory = false;
      for (int64_t i = begin; sums && i < end; ++i) {
        run_vectorised<Tile>(simd, window, call, in, parts[i], sums.get());
      }
    });
    if (!has_memory) refuse("there is not enough memory for ", call.out_channels, " output channels.");
    return Ort::Status{nullptr};
  }

  // No attribute is needed: offset has the height and the width of the output.
  static void InferShapes(Shapes& shapes) {
    const Shapes::Dims x = shapes.dims(0), w = shapes.dims(1), offset = shapes.dims(2);
    if (x.size() == 4 && w.size() == 4 && offset.size() == 4) {
      shapes.set(0, shapes.type(0), {x[0], w[0], offset[2], offset[3]});
    }
  }

 private:
  static constexpr int64_t lanes = kPanel<T>;

  Buffer<T> channels_last(OrtKernelContext* context, const Call& call, const T* x) const {
    constexpr int64_t kPiece = 256;  // pixels
    const int64_t plane = call.height * call.width, pieces = (plane + kPiece - 1) / kPiece;
    const int64_t size = call.n * plane * call.channels, zeros = call.channels + lanes;
    Buffer<T> image = allocate<T>(size + zeros);
    std::fill_n(image.get() + size, zeros, T(0));
    parallel_for(context, call.n * pieces, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % pieces * kPiece, last = std::min(first + kPiece, plane);
        run_vectorised<ChannelsLast>(simd, call, x, image.get(), i / pieces, first, last);
      }
    });
    return image;
  }

  // `context` may be null: then it runs on one thread.
  Buffer<T> pack(OrtKernelContext* context, const Filter& filter, const T* w) const {
    const int64_t panels = filter.panels(lanes), all = filter.groups * panels;
    Buffer<T> weights = allocate<T>(all * filter.terms() * lanes);
    parallel_for(context, all, context ? 1 : all, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        run_vectorised<Pack>(simd, filter, w, weights.get(), i / panels, i % panels);
      }
    });
    return weights;
  }

  const Simd simd = chosen_simd();
  const Window window;
  Buffer<T> constant_weights;
};

}  // namespace

void add_deform_conv2d(Ort::CustomOpDomain& domain) { add_for<DeformConv2d, float, double>(domain, "DeformConv2d"); }

}  // namespace oplab
