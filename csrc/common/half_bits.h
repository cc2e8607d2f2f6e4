// One number of float16 or bfloat16, as its 16 bits: half.h says what the formats are, and converts many at once. A GPU computes the
// same bits with these functions.
#pragma once

#include <cstdint>
#include <cstring>

#include "device.h"

namespace oplab {

enum class Half { float16, bfloat16 };

namespace half {

[[gnu::always_inline]] OPLAB_DEVICE inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
[[gnu::always_inline]] OPLAB_DEVICE inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

template <Half format>
[[gnu::always_inline]] OPLAB_DEVICE inline float widen_one(uint16_t given) {
  if constexpr (format == Half::bfloat16) return float_of(uint32_t{given} << 16);
  const uint32_t rest = given & 0x7fffu, sign = uint32_t{given} & 0x8000u;
  // In the place of a float32 the exponent is 112 too small, also for a subnormal number; the product is exact.
  const uint32_t finite = bits_of(float_of(rest << 13) * 0x1p112f);
  const uint32_t special = rest << 13 | (rest > 0x7c00u ? 0x7fc00000u : 0x7f800000u);  // NaN, which becomes quiet, or infinity
  return float_of((rest < 0x7c00u ? finite : special) | sign << 16);
}

// The upper `32 - shift` bits of a float32, rounded to the nearest.
template <int shift>
[[gnu::always_inline]] OPLAB_DEVICE inline uint32_t rounded(uint32_t bits) {
  return (bits + ((1u << (shift - 1)) - 1) + (bits >> shift & 1u)) >> shift;
}

template <Half format>
[[gnu::always_inline]] OPLAB_DEVICE inline uint16_t narrow_one(float given) {
  const uint32_t bits = bits_of(given), rest = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
  const bool is_nan = rest > 0x7f800000u;  // rounding could carry it over to infinity: it keeps its upper bits, and is quiet
  if constexpr (format == Half::bfloat16) {
    return static_cast<uint16_t>(is_nan ? bits >> 16 | 0x40u : rounded<16>(bits));
  }
  // Below 2**-14 the numbers of float16 are 2**-24 apart, as those of float32 are between 0.5 and 1.
  const uint32_t subnormal = bits_of(float_of(rest) + 0.5f) - bits_of(0.5f);
  const uint32_t normal = rounded<13>(rest - (112u << 23));
  const uint32_t finite = rest < (113u << 23) ? subnormal : normal;
  const uint32_t special = is_nan ? 0x7e00u | (rest >> 13 & 0x3ffu) : 0x7c00u;
  return static_cast<uint16_t>((rest < bits_of(65520.0f) ? finite : special) | sign);
}

}  // namespace half
}  // namespace oplab
