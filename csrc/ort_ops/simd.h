// One job, compiled for several sets of instructions; the processor that it runs on decides. OPLAB_SIMD=plain, avx2 or avx512
// in the environment decides instead, for tests and measurements: it is read when a session is made.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "oplab_kernel.h"

namespace oplab {

enum class Simd { plain, avx2, avx512 };

inline bool runs_here(Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (simd == Simd::avx512) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
#endif
  return simd == Simd::plain;
}

// For a kernel's constructor.
inline Simd chosen_simd() {
  constexpr std::pair<Simd, const char*> all[] = {{Simd::avx512, "avx512"}, {Simd::avx2, "avx2"}, {Simd::plain, "plain"}};
  const char* wanted = std::getenv("OPLAB_SIMD");
  const bool any = wanted == nullptr || *wanted == '\0';
  for (const auto& [simd, name] : all) {
    if (any ? runs_here(simd) : std::string(name) == wanted && runs_here(simd)) return simd;
  }
  refuse("OPLAB_SIMD is ", wanted, ", which is not one of plain, avx2 and avx512, or not what this processor can run.");
}

// What a job may know of the set that it is compiled for: the bytes of a register, and how many registers there are.
template <Simd simd>
struct Registers {
  static constexpr int bytes = simd == Simd::avx512 ? 64 : simd == Simd::avx2 ? 32 : 16;
  static constexpr int count = simd == Simd::avx512 ? 32 : 16;
};

// Calls Job::template run<simd>(arguments...). All that run calls must be always_inline: a function of its own would be
// compiled for the oldest processor.
#if defined(__x86_64__)
template <typename Job, typename... Arguments>
[[gnu::target("avx512f,avx512dq")]] void run_with_avx512(const Arguments&... arguments) {
  Job::template run<Simd::avx512>(arguments...);
}
template <typename Job, typename... Arguments>
[[gnu::target("avx2,fma")]] void run_with_avx2(const Arguments&... arguments) {
  Job::template run<Simd::avx2>(arguments...);
}
#endif

template <typename Job, typename... Arguments>
void run_vectorised(Simd simd, const Arguments&... arguments) {
#if defined(__x86_64__)
  if (simd == Simd::avx512) return run_with_avx512<Job>(arguments...);
  if (simd == Simd::avx2) return run_with_avx2<Job>(arguments...);
#endif
  (void)simd;
  Job::template run<Simd::plain>(arguments...);
}

// A vector of so many bytes; the compiler splits it where the registers are smaller.
template <typename T, int bytes = 64>
struct Vector {
  typedef T type __attribute__((vector_size(bytes)));
  static constexpr int64_t lanes = bytes / sizeof(T);
};

// to[j * to_step + i] = from[i * from_step + j] for i < rows and j < columns. Blocks of one register by one register are
// turned over in registers: in step d, what differs in bit d of row and lane changes places.
template <typename T, Simd simd>
struct Transpose {
  static constexpr int64_t lanes = Vector<T, Registers<simd>::bytes>::lanes;
  using V = typename Vector<T, Registers<simd>::bytes>::type;
  using Lanes = std::make_integer_sequence<int, static_cast<int>(lanes)>;

  [[gnu::always_inline]] static void run(const T* from, int64_t from_step, int64_t rows, int64_t columns, T* to,
                                         int64_t to_step) {
    if (rows < lanes || columns < lanes) {
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t i = 0; i < rows; ++i) to[j * to_step + i] = from[i * from_step + j];
      }
      return;
    }
    for (int64_t i = 0; i < rows; i += lanes) {
      if (i > rows - lanes) i = rows - lanes;  // the last block may overlap the one before
      for (int64_t j = 0; j < columns; j += lanes) {
        if (j > columns - lanes) j = columns - lanes;
        block(from + i * from_step + j, from_step, to + j * to_step + i, to_step);
      }
    }
  }

 private:
  [[gnu::always_inline]] static void block(const T* from, int64_t from_step, T* to, int64_t to_step) {
    V row[lanes];
    for (int64_t i = 0; i < lanes; ++i) std::memcpy(&row[i], from + i * from_step, sizeof(V));
    if constexpr (lanes > 8) step<8>(row, Lanes());
    if constexpr (lanes > 4) step<4>(row, Lanes());
    if constexpr (lanes > 2) step<2>(row, Lanes());
    step<1>(row, Lanes());
    for (int64_t j = 0; j < lanes; ++j) std::memcpy(to + j * to_step, &row[j], sizeof(V));
  }

  template <int d, int... lane>
  [[gnu::always_inline]] static void step(V (&row)[lanes], std::integer_sequence<int, lane...>) {
    for (int64_t i = 0; i < lanes; ++i) {
      if (i & d) continue;
      const V a = row[i], b = row[i + d];
#if defined(__clang__)
      row[i] = __builtin_shufflevector(a, b, (lane & d ? lanes + lane - d : lane)...);
      row[i + d] = __builtin_shufflevector(a, b, (lane & d ? lanes + lane : lane + d)...);
#else
      using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
      typedef Index Mask __attribute__((vector_size(sizeof(V))));
      row[i] = __builtin_shuffle(a, b, Mask{(lane & d ? lanes + lane - d : lane)...});
      row[i + d] = __builtin_shuffle(a, b, Mask{(lane & d ? lanes + lane : lane + d)...});
#endif
    }
  }
};

}  // namespace oplab
