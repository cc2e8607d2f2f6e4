// float16 and bfloat16 in memory, float32 for computing: `widen` reads the one into the other, and `narrow` rounds back, once, to
// the nearest, ties to the even neighbour. Both give the same bits on every processor and with every instruction set.
//
//   bfloat16 is the upper half of a float32.
//   float16 has 5 bits of exponent and 10 of fraction: 65504 is its largest number, and 2**-24 its smallest. Processors convert it
//   (F16C, which every processor with AVX2 has, and AArch64); the plain path computes with integers.
//
// AVX512-BF16 is not used: its vcvtneps2bf16 turns subnormal numbers into 0, which no other set does, and it saves nothing where
// memory sets the pace.
#pragma once

#include <cstdint>
#include <cstring>

#include "half_bits.h"
#include "simd.h"

namespace oplab {

namespace half {

// Whether a register is converted by the functions below, and not number by number.
template <Simd simd>
constexpr bool by_register = simd != Simd::plain;

template <Simd simd>
struct Registers16 {
  using Wide = typename Vector<float, simd>::type;
  typedef uint32_t Bits __attribute__((vector_size(sizeof(Wide))));
  typedef uint16_t Narrow __attribute__((vector_size(sizeof(Wide) / 2)));
};

// A register of floats from numbers of a half type in memory. An instruction of the processor where it has one, and not a
// conversion of C++: GCC 11 knows no _Float16. By reference: GCC warns of a register that a function takes
// or returns by value, even if the function is always inlined.
template <Half format, Simd simd>
[[gnu::always_inline]] inline void load(const uint16_t* from, typename Registers16<simd>::Wide& wide) {
  if constexpr (by_register<simd>) {
    typename Registers16<simd>::Narrow narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    if constexpr (format == Half::bfloat16) {
      const auto bits = __builtin_convertvector(narrow, typename Registers16<simd>::Bits) << 16;
      std::memcpy(&wide, &bits, sizeof(wide));
    } else {
#if defined(__x86_64__)
      asm("vcvtph2ps %1, %0" : "=v"(wide) : "v"(narrow));
#elif defined(__aarch64__)
      asm("fcvtl %0.4s, %1.4h" : "=w"(wide) : "w"(narrow));
#endif
    }
  } else {
    for (int64_t i = 0; i < Vector<float, simd>::lanes; ++i) wide[i] = widen_one<format>(from[i]);
  }
}

// The other way.
template <Half format, Simd simd>
[[gnu::always_inline]] inline void store(const typename Registers16<simd>::Wide& wide, uint16_t* to) {
  if constexpr (by_register<simd>) {
    typename Registers16<simd>::Narrow narrow;
    if constexpr (format == Half::bfloat16) {
      using Bits = typename Registers16<simd>::Bits;
      Bits bits;
      std::memcpy(&bits, &wide, sizeof(bits));
      const Bits is_nan = Bits((bits & 0x7fffffffu) > 0x7f800000u);  // all ones, or 0
      const Bits rounded = bits + 0x7fffu + (bits >> 16 & 1u);
      narrow = __builtin_convertvector(((rounded & ~is_nan) | ((bits | 0x400000u) & is_nan)) >> 16,
                                       typename Registers16<simd>::Narrow);
    } else {
#if defined(__x86_64__)
      asm("vcvtps2ph $0, %1, %0" : "=v"(narrow) : "v"(wide));  // 0: to the nearest, whatever the thread's rounding mode is
#elif defined(__aarch64__)
      asm("fcvtn %0.4h, %1.4s" : "=w"(narrow) : "w"(wide));
#endif
    }
    std::memcpy(to, &narrow, sizeof(narrow));
  } else {
    for (int64_t i = 0; i < Vector<float, simd>::lanes; ++i) to[i] = narrow_one<format>(wide[i]);
  }
}

template <Half format, Simd simd>
[[gnu::always_inline]] inline void widen(const uint16_t* from, int64_t count, float* to) {
  int64_t i = 0;
  if constexpr (by_register<simd>) {
    for (; i + Vector<float, simd>::lanes <= count; i += Vector<float, simd>::lanes) {
      typename Registers16<simd>::Wide wide;
      load<format, simd>(from + i, wide);
      std::memcpy(to + i, &wide, sizeof(wide));
    }
  }
  for (; i < count; ++i) to[i] = widen_one<format>(from[i]);
}

template <Half format, Simd simd>
[[gnu::always_inline]] inline void narrow(const float* from, int64_t count, uint16_t* to) {
  int64_t i = 0;
  if constexpr (by_register<simd>) {
    for (; i + Vector<float, simd>::lanes <= count; i += Vector<float, simd>::lanes) {
      typename Registers16<simd>::Wide wide;
      std::memcpy(&wide, from + i, sizeof(wide));
      store<format, simd>(wide, to + i);
    }
  }
  for (; i < count; ++i) to[i] = narrow_one<format>(from[i]);
}

template <Half format>
struct Widen {
  template <Simd simd>
  [[gnu::always_inline]] static void run(const uint16_t* from, int64_t count, float* to) {
    widen<format, simd>(from, count, to);
  }
};
template <Half format>
struct Narrow {
  template <Simd simd>
  [[gnu::always_inline]] static void run(const float* from, int64_t count, uint16_t* to) {
    narrow<format, simd>(from, count, to);
  }
};

}  // namespace half

// to[i] = from[i] for i < count, exactly.
template <Half format>
void widen(Simd simd, const uint16_t* from, int64_t count, float* to) {
  run_vectorised<half::Widen<format>>(simd, from, count, to);
}

// to[i] = from[i] for i < count, rounded to the nearest number that the format has. What is too large is infinity, and NaN stays NaN.
template <Half format>
void narrow(Simd simd, const float* from, int64_t count, uint16_t* to) {
  run_vectorised<half::Narrow<format>>(simd, from, count, to);
}

}  // namespace oplab
