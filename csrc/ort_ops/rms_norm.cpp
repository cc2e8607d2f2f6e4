// oplab::RMSNorm(x, weight; epsilon = 1e-5) -> y = x / sqrt(mean(x^2) + epsilon) * weight along the last axis (B. Zhang and
// R. Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019). For float, double, float16 and bfloat16; the halves are
// computed in float, where 300 squared is not infinity, and each result is rounded once.
//
// It is limited by memory bandwidth: a row is read from memory once and stays in the caches until it is written.
#include "../common/stream.h"
#include "kernels.h"
#include "oplab_kernel.h"
#include "stored.h"

namespace oplab {
namespace {

constexpr int64_t kPiece = 1 << 15;                  // elements of one piece: smaller tensors run on one thread
constexpr int64_t kNonTemporal = int64_t{16} << 20;  // bytes of y from which non-temporal stores are used

// The sum of squares of `count` elements, as 64 sums that do not wait for each other. Element i belongs to sum i % 64 with every
// instruction set. A square of float16 or bfloat16 is exact in float, so that the sum of a row of halves has the same bits
// with fused multiply-add as without.
template <typename T>
struct SumOfSquares {
  using Computed = typename Stored<T>::Computed;

  template <Simd simd>
  [[gnu::always_inline]] static void run(const T* x, int64_t count, Computed* sum) {
    using V = typename Vector<Computed, simd>::type;
    constexpr int64_t kSums = 64, lanes = Vector<Computed, simd>::lanes, kRegisters = kSums / lanes;
    constexpr int64_t kHeld = kRegisters < 8 ? kRegisters : 8;  // in one pass: a set may have only 16 registers
    Computed sums[kSums] = {};
    const int64_t whole = count / kSums * kSums;
    for (int64_t first = 0; first < kRegisters; first += kHeld) {
      V held[kHeld] = {};
      for (int64_t i = 0; i < whole; i += kSums) {
        OPLAB_UNROLL for (int64_t r = 0; r < kHeld; ++r) {
          V value;
          Stored<T>::template load<simd>(x + i + (first + r) * lanes, value);
          OPLAB_FUSED_SUMS held[r] = held[r] + value * value;
        }
      }
      for (int64_t r = 0; r < kHeld; ++r) std::memcpy(sums + (first + r) * lanes, &held[r], sizeof(V));
    }
    for (int64_t i = whole; i < count; ++i) {
      const Computed value = Stored<T>::read_one(x + i);
      sums[i - whole] += value * value;
    }
    for (int64_t step = kSums / 2; step > 0; step /= 2) {
      for (int64_t k = 0; k < step; ++k) sums[k] += sums[k + step];
    }
    *sum = sums[0];
  }
};

// y = x * factor * weight for one row. The next row is fetched meanwhile: memory would rest otherwise, while this row is computed.
template <typename T>
struct Scale {
  using Computed = typename Stored<T>::Computed;

  template <Simd simd>
  [[gnu::always_inline]] static void run(const T* x, const T* weight, Computed factor, int64_t count, T* y) {
    using V = typename Vector<Computed, simd>::type;
    constexpr int64_t lanes = Vector<Computed, simd>::lanes;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      __builtin_prefetch(x + count + i);
      V numbers, weights;
      Stored<T>::template load<simd>(x + i, numbers);
      Stored<T>::template load<simd>(weight + i, weights);
      numbers = numbers * factor * weights;
      Stored<T>::template store<simd>(numbers, y + i);
    }
    for (; i < count; ++i) Stored<T>::write_one(Stored<T>::read_one(x + i) * factor * Stored<T>::read_one(weight + i), y + i);
  }
};

// bfloat16 needs no conversion: of two neighbours in 32 bits, the second is a float32 as it stands, once the bits of the first are
// cleared, and the first is one when it is shifted up. Two are computed at a time, without unpacking them and packing them again.
template <Simd simd>
struct Pair {
  using V = typename Vector<float, simd>::type;
  typedef uint32_t Bits __attribute__((vector_size(sizeof(V))));
  static constexpr int64_t elements = 2 * Vector<float, simd>::lanes;
  static constexpr uint32_t upper = 0xffff0000u;

  [[gnu::always_inline]] static void load(const Ort::BFloat16_t* from, V& first, V& second) {
    Bits bits;
    std::memcpy(&bits, from, sizeof(bits));
    const Bits shifted = bits << 16, kept = bits & upper;
    std::memcpy(&first, &shifted, sizeof(V));
    std::memcpy(&second, &kept, sizeof(V));
  }

  // Rounded to the nearest. A NaN stays one: all NaN come from numbers of bfloat16, and have no bits below those that are kept.
  [[gnu::always_inline]] static void store(const V& first, const V& second, Ort::BFloat16_t* to) {
    Bits low, high;
    std::memcpy(&low, &first, sizeof(V));
    std::memcpy(&high, &second, sizeof(V));
    low += (low >> 16 & 1u) + 0x7fffu;
    high += (high >> 16 & 1u) + 0x7fffu;
    const Bits both = (low >> 16) | (high & upper);
    std::memcpy(static_cast<void*>(to), &both, sizeof(both));
  }
};

template <>
struct SumOfSquares<Ort::BFloat16_t> {
  template <Simd simd>
  [[gnu::always_inline]] static void run(const Ort::BFloat16_t* x, int64_t count, float* sum) {
    using V = typename Vector<float, simd>::type;
    constexpr int64_t kSums = 64, elements = Pair<simd>::elements, kPairs = kSums / elements;
    constexpr int64_t kHeld = kPairs < 4 ? kPairs : 4;  // in one pass: a set may have only 16 registers
    float sums[kSums] = {};
    const int64_t whole = count / kSums * kSums;
    for (int64_t part = 0; part < kPairs; part += kHeld) {
      V first[kHeld] = {}, second[kHeld] = {};
      for (int64_t i = 0; i < whole; i += kSums) {
        OPLAB_UNROLL for (int64_t r = 0; r < kHeld; ++r) {
          V even, odd;
          Pair<simd>::load(x + i + (part + r) * elements, even, odd);
          OPLAB_FUSED_SUMS first[r] = first[r] + even * even;
          OPLAB_FUSED_SUMS second[r] = second[r] + odd * odd;
        }
      }
      for (int64_t r = 0; r < kHeld; ++r) {
        for (int64_t lane = 0; lane < elements / 2; ++lane) {
          sums[(part + r) * elements + 2 * lane] = first[r][lane];
          sums[(part + r) * elements + 2 * lane + 1] = second[r][lane];
        }
      }
    }
    for (int64_t i = whole; i < count; ++i) {
      const float value = Stored<Ort::BFloat16_t>::read_one(x + i);
      sums[i - whole] += value * value;
    }
    for (int64_t step = kSums / 2; step > 0; step /= 2) {
      for (int64_t k = 0; k < step; ++k) sums[k] += sums[k + step];
    }
    *sum = sums[0];
  }
};

template <>
struct Scale<Ort::BFloat16_t> {
  template <Simd simd>
  [[gnu::always_inline]] static void run(const Ort::BFloat16_t* x, const Ort::BFloat16_t* weight, float factor, int64_t count,
                                         Ort::BFloat16_t* y) {
    using V = typename Vector<float, simd>::type;
    int64_t i = 0;
    for (; i + Pair<simd>::elements <= count; i += Pair<simd>::elements) {
      __builtin_prefetch(x + count + i);
      V even, odd, even_weights, odd_weights;
      Pair<simd>::load(x + i, even, odd);
      Pair<simd>::load(weight + i, even_weights, odd_weights);
      Pair<simd>::store(even * factor * even_weights, odd * factor * odd_weights, y + i);
    }
    for (; i < count; ++i) {
      using S = Stored<Ort::BFloat16_t>;
      S::write_one(S::read_one(x + i) * factor * S::read_one(weight + i), y + i);
    }
  }
};

template <typename T>
struct RMSNorm {
  using Computed = typename Stored<T>::Computed;

  RMSNorm(const OrtApi*, const OrtKernelInfo* info) : epsilon_(float_attribute(info, "epsilon", 1e-5f)), simd_(chosen_simd()) {
    if (!(epsilon_ >= 0)) refuse("epsilon must be 0 or more, but it is ", epsilon_, ".");
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& x, const Tensor<T>& weight, Tensor<T>& y) {
    const std::vector<int64_t>& shape = x.Shape();
    if (shape.empty()) return invalid("RMSNorm: x must have at least one axis, but it is a scalar.");
    const int64_t width = shape.back(), size = x.NumberOfElement();
    if (weight.Shape() != std::vector<int64_t>{width}) {
      return invalid("RMSNorm: weight must have one value for each element of x's last axis, but x is " + shape_text(shape) +
                     " and weight is " + shape_text(weight.Shape()) + ".");
    }
    const T* const px = x.Data();
    const T* const factors = weight.Data();
    T* const py = y.Allocate(shape);
    if (size == 0) return Ort::Status{nullptr};
    const bool is_large = size * int64_t{sizeof(T)} >= kNonTemporal;
    parallel_for(context, size / width, std::max(kPiece / width, int64_t{1}), [&](int64_t begin, int64_t end) {
      std::vector<T> made(is_large ? width : 0);
      for (int64_t row = begin; row < end; ++row) {
        T* const to = py + row * width;
        T* const into = is_large ? made.data() : to;
        normalise(px + row * width, factors, width, into);
        if (is_large) stream(into, width, to);
      }
      if (is_large) streamed();
    });
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) { shapes.set(0, shapes.type(0), shapes.dims(0)); }

 private:
  void normalise(const T* x, const T* weight, int64_t width, T* y) const {
    Computed sum;
    run_vectorised<SumOfSquares<T>>(simd_, x, width, &sum);
    const Computed factor = 1 / std::sqrt(sum / static_cast<Computed>(width) + static_cast<Computed>(epsilon_));
    run_vectorised<Scale<T>>(simd_, x, weight, factor, width, y);
  }

  const float epsilon_;
  const Simd simd_;
};

}  // namespace

void add_rms_norm(Ort::CustomOpDomain& domain) {
  add_for<RMSNorm, float, double, Ort::Float16_t, Ort::BFloat16_t>(domain, "RMSNorm");
}

}  // namespace oplab
