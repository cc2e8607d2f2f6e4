// What a tensor holds on the GPU, and the type in which a kernel computes: as stored.h has it for the CPU, one number at a time.
#pragma once

#include <cstdint>

#include "../common/half_bits.h"

namespace oplab {
namespace gpu {

template <Half format>
struct HalfBits {
  uint16_t bits;
};

// Element<T>::Computed is the type to compute in.
template <typename T>
struct Element {
  using Computed = T;
  static OPLAB_DEVICE T read(T stored) { return stored; }
  static OPLAB_DEVICE T rounded(T number) { return number; }
};
template <Half format>
struct Element<HalfBits<format>> {
  using Computed = float;
  static OPLAB_DEVICE float read(HalfBits<format> stored) { return half::widen_one<format>(stored.bits); }
  static OPLAB_DEVICE HalfBits<format> rounded(float number) { return {half::narrow_one<format>(number)}; }
};
template <typename T>
using Computed = typename Element<T>::Computed;

}  // namespace gpu
}  // namespace oplab
