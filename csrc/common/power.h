// Powers with an integer exponent. PyTorch's operator and ONNX Runtime's kernel both call this, so that their results are
// bit-identical.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace oplab {

constexpr int64_t kLargestExponent = int64_t{1} << 53;  // beyond it a double does not tell odd from even
constexpr int64_t kMultiplied = 16;                       // powers up to this exponent are products, off by at most 16 roundings
constexpr int64_t kPowers = 256;                          // numbers in one block, which stays in the L1 cache

// power[i] = base[i] ** exponent for i < count, at most kPowers. `base` is overwritten.
inline void raise(double* base, int64_t exponent, int64_t count, double* power) {
  if (std::abs(exponent) > kMultiplied) {
    // The exponent as a double: a float would lose the last bit of 2**24 + 1, and with it the sign.
    for (int64_t i = 0; i < count; ++i) power[i] = std::pow(base[i], static_cast<double>(exponent));
    return;
  }
  if (exponent < 0) {
    for (int64_t i = 0; i < count; ++i) base[i] = 1 / base[i];
  }
  std::fill_n(power, count, 1.0);  // also of 0 and NaN to the power of 0
  for (int64_t left = std::abs(exponent); left > 0; left /= 2) {  // base is here base ** 1, 2, 4, …
    if (left % 2 == 1) {
      for (int64_t i = 0; i < count; ++i) power[i] *= base[i];
    }
    if (left > 1) {
      for (int64_t i = 0; i < count; ++i) base[i] *= base[i];
    }
  }
}

// y[i] = scale * a[i] + b[i] ** exponent for i in [begin, end). Compute is the type of the sum.
template <typename Compute, typename T>
void scaled_plus_power(const T* a, const T* b, Compute scale, int64_t exponent, int64_t begin, int64_t end, T* y) {
  double base[kPowers], power[kPowers];
  for (int64_t i = begin; i < end; i += kPowers) {
    const int64_t count = std::min(kPowers, end - i);
    for (int64_t k = 0; k < count; ++k) base[k] = static_cast<double>(b[i + k]);
    raise(base, exponent, count, power);
    for (int64_t k = 0; k < count; ++k) {
      y[i + k] = static_cast<T>(scale * static_cast<Compute>(a[i + k]) + static_cast<Compute>(power[k]));
    }
  }
}

}  // namespace oplab
