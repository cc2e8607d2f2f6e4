// What a tensor holds, and the type in which a kernel computes. float and double are both; float16, bfloat16 and the 8-bit
// integers are read as float32, and each result is rounded once, when it is written.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "../common/half.h"

namespace oplab {

static_assert(sizeof(Ort::Float16_t) == 2 && sizeof(Ort::BFloat16_t) == 2, "Stored reads their 16 bits");

namespace detail {

template <typename T, Half format>
struct StoredHalf {
  using Computed = float;

  [[gnu::always_inline]] static float read_one(const T* from) {
    return half::widen_one<format>(*reinterpret_cast<const uint16_t*>(from));
  }
  [[gnu::always_inline]] static void write_one(float number, T* to) {
    *reinterpret_cast<uint16_t*>(to) = half::narrow_one<format>(number);
  }
  template <Simd simd>
  [[gnu::always_inline]] static void load(const T* from, typename Vector<float, simd>::type& numbers) {
    half::load<format, simd>(reinterpret_cast<const uint16_t*>(from), numbers);
  }
  template <Simd simd>
  [[gnu::always_inline]] static void store(const typename Vector<float, simd>::type& numbers, T* to) {
    half::store<format, simd>(numbers, reinterpret_cast<uint16_t*>(to));
  }

  static void read(Simd simd, const T* from, int64_t count, float* to) {
    widen<format>(simd, reinterpret_cast<const uint16_t*>(from), count, to);
  }
  static void write(Simd simd, const float* from, int64_t count, T* to) {
    narrow<format>(simd, from, count, reinterpret_cast<uint16_t*>(to));
  }
};

template <typename T>
struct StoredInteger {
  using Computed = float;

  static void read(Simd simd, const T* from, int64_t count, float* to) { run_vectorised<Read>(simd, from, count, to); }
  // To the nearest, ties to the even number; what is too large or too small is the nearest that T has, and NaN is 0.
  static void write(Simd simd, const float* from, int64_t count, T* to) { run_vectorised<Write>(simd, from, count, to); }

 private:
  struct Read {
    template <Simd simd>
    [[gnu::always_inline]] static void run(const T* from, int64_t count, float* to) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
    }
  };
  struct Write {
    template <Simd simd>
    [[gnu::always_inline]] static void run(const float* from, int64_t count, T* to) {
      constexpr float lowest = std::numeric_limits<T>::lowest(), highest = std::numeric_limits<T>::max();
      constexpr float whole = 0x1.8p23f;  // the neighbours of numbers of this size are 1 apart: adding it rounds
      for (int64_t i = 0; i < count; ++i) {
        const float known = from[i] == from[i] ? from[i] : 0.0f;
        const float bounded = known < lowest ? lowest : known > highest ? highest : known;
        to[i] = static_cast<T>(static_cast<int32_t>(bounded + whole - whole));
      }
    }
  };
};

}  // namespace detail

// Stored<T>::Computed is the type to compute in. If `converts`, read(simd, from, count, to) makes such numbers of `count` elements
// and write(simd, from, count, to) rounds them back. In a job (simd.h), read_one and write_one do it for one number, and load and
// store for a register of them; integers have none of these.
template <typename T>
struct Stored {
  using Computed = T;

  [[gnu::always_inline]] static T read_one(const T* from) { return *from; }
  [[gnu::always_inline]] static void write_one(T number, T* to) { *to = number; }
  template <Simd simd>
  [[gnu::always_inline]] static void load(const T* from, typename Vector<T, simd>::type& numbers) {
    std::memcpy(&numbers, from, sizeof(numbers));
  }
  template <Simd simd>
  [[gnu::always_inline]] static void store(const typename Vector<T, simd>::type& numbers, T* to) {
    std::memcpy(to, &numbers, sizeof(numbers));
  }
};
template <>
struct Stored<Ort::Float16_t> : detail::StoredHalf<Ort::Float16_t, Half::float16> {};
template <>
struct Stored<Ort::BFloat16_t> : detail::StoredHalf<Ort::BFloat16_t, Half::bfloat16> {};
template <>
struct Stored<uint8_t> : detail::StoredInteger<uint8_t> {};
template <>
struct Stored<int8_t> : detail::StoredInteger<int8_t> {};

template <typename T>
constexpr bool converts = !std::is_same_v<T, typename Stored<T>::Computed>;

}  // namespace oplab
