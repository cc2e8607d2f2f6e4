// One function (a job), compiled for several instruction sets; the best one that the processor has is chosen at run time.
// OPLAB_SIMD in the environment chooses another one, for tests and measurements: it is read when a session is created. x86-64
// has plain, avx2 and avx512, AArch64 has plain and neon.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

// In a job, sums of products use fused multiply-add if the instruction set has it: twice the speed, and one rounding less.
// The rest of the library is compiled without, so that a sum is bit-identical on every processor. GCC takes the option from
// the function that a job is inlined into, clang from the block that contains the sum. GCC 11 would also merge two blocks of
// sums, which need more registers than there are.
#if defined(__clang__)
#define OPLAB_JOB
#define OPLAB_PLAIN_JOB
#define OPLAB_FUSED_SUMS _Pragma("clang fp contract(fast)")
#define OPLAB_UNROLL _Pragma("clang loop unroll(full)")
#else
#define OPLAB_JOB [[gnu::optimize("fp-contract=fast", "no-trapping-math", "no-loop-unroll-and-jam")]]
#define OPLAB_PLAIN_JOB [[gnu::optimize("no-trapping-math", "no-loop-unroll-and-jam")]]
#define OPLAB_FUSED_SUMS
#define OPLAB_UNROLL _Pragma("GCC unroll 16")
#endif

namespace oplab {

enum class Simd { plain, neon, avx2, avx512 };

struct SimdSet {
  Simd simd;
  const char* name;
};

// The instruction sets that this library is compiled for, the fastest first.
#if defined(__x86_64__)
constexpr SimdSet kSimdSets[] = {{Simd::avx512, "avx512"}, {Simd::avx2, "avx2"}, {Simd::plain, "plain"}};
#elif defined(__aarch64__)
constexpr SimdSet kSimdSets[] = {{Simd::neon, "neon"}, {Simd::plain, "plain"}};
#else
constexpr SimdSet kSimdSets[] = {{Simd::plain, "plain"}};
#endif

inline bool runs_here(Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (simd == Simd::avx512) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
#endif
  (void)simd;
  return true;  // every AArch64 processor has NEON
}

// The instruction set to use. For a kernel's constructor: throws std::runtime_error if OPLAB_SIMD names one that cannot be used.
inline Simd chosen_simd() {
  const char* wanted = std::getenv("OPLAB_SIMD");
  const bool any = wanted == nullptr || *wanted == '\0';
  std::string here;
  bool is_known = false;
  for (const auto& [simd, name] : kSimdSets) {
    const bool is_wanted = any || std::string(name) == wanted;
    if (is_wanted && runs_here(simd)) return simd;
    is_known = is_known || is_wanted;
    if (runs_here(simd)) here += (here.empty() ? "" : ", ") + std::string(name);
  }
  const std::string why = is_known ? "which this processor cannot run" : "which is not an instruction set of this build";
  throw std::runtime_error(std::string("OPLAB_SIMD is ") + wanted + ", " + why + ". Unset it, or set it to one of: " + here + ".");
}

// The registers of an instruction set: the bytes of one, and how many there are.
template <Simd simd>
struct Registers {
  static constexpr int bytes = simd == Simd::avx512 ? 64 : simd == Simd::avx2 ? 32 : 16;
  static constexpr int count = simd == Simd::avx512 || simd == Simd::neon ? 32 : 16;
};

// Calls Job::template run<simd>(arguments...). All functions that run calls must be always_inline: one that is not inlined
// would be compiled for the oldest processor, and without OPLAB_JOB.
#if defined(__x86_64__)
template <typename Job, typename... Arguments>
[[gnu::target("avx512f,avx512dq")]] OPLAB_JOB void run_with_avx512(const Arguments&... arguments) {
  Job::template run<Simd::avx512>(arguments...);
}
template <typename Job, typename... Arguments>
[[gnu::target("avx2,fma")]] OPLAB_JOB void run_with_avx2(const Arguments&... arguments) {
  Job::template run<Simd::avx2>(arguments...);
}
#elif defined(__aarch64__)
template <typename Job, typename... Arguments>
OPLAB_JOB void run_with_neon(const Arguments&... arguments) {
  Job::template run<Simd::neon>(arguments...);
}
#endif
template <typename Job, typename... Arguments>
OPLAB_PLAIN_JOB void run_plain(const Arguments&... arguments) {
  Job::template run<Simd::plain>(arguments...);
}

template <typename Job, typename... Arguments>
void run_vectorised(Simd simd, const Arguments&... arguments) {
#if defined(__x86_64__)
  if (simd == Simd::avx512) return run_with_avx512<Job>(arguments...);
  if (simd == Simd::avx2) return run_with_avx2<Job>(arguments...);
#elif defined(__aarch64__)
  if (simd == Simd::neon) return run_with_neon<Job>(arguments...);
#endif
  (void)simd;
  run_plain<Job>(arguments...);
}

// A vector that fills one register of the instruction set. A wider one would be kept in memory: GCC splits the operations on
// it, but not the variable, so each operation would read and write the stack.
template <typename T, Simd simd>
struct Vector {
  typedef T type __attribute__((vector_size(Registers<simd>::bytes)));
  static constexpr int64_t lanes = Registers<simd>::bytes / sizeof(T);
};

// to[j * to_step + i] = from[i * from_step + j] for i < rows and j < columns. Blocks of one register by one register are
// transposed in registers: step d swaps the elements whose row and lane differ in bit d.
template <typename T, Simd simd>
struct Transpose {
  static constexpr int64_t lanes = Vector<T, simd>::lanes;
  using V = typename Vector<T, simd>::type;
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
