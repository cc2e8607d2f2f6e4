// A small matrix product that keeps its sums in registers, compiled for several widths of the processor's vectors.
#pragma once

#include <cstdint>
#include <cstring>

namespace oplab {

// A vector of 64 bytes: one register of AVX-512, two of AVX2, four of SSE2 and NEON. The compiler splits it.
template <typename T>
struct Vector {
  typedef T type __attribute__((vector_size(64)));
  static constexpr int64_t lanes = 64 / sizeof(T);
};

// sums[r] += samples[r][0 ... depth) x weights[0 ... depth), for `rows` rows at once: as many as leave the sums in registers.
// `stride` is from one row of samples to the next; a row of sums and of weights is one vector.
template <typename T, int rows, int stride>
[[gnu::always_inline]] inline void multiply_rows(const T* samples, int64_t depth, const T* weights, T* sums) {
  using V = typename Vector<T>::type;
  constexpr int64_t lanes = Vector<T>::lanes;
  V sum[rows];
  std::memcpy(sum, sums, sizeof(sum));
  for (int64_t c = 0; c < depth; ++c) {
    V weight;
    std::memcpy(&weight, weights + c * lanes, sizeof(V));
    for (int r = 0; r < rows; ++r) sum[r] += samples[r * stride + c] * weight;
  }
  std::memcpy(sums, sum, sizeof(sum));
}

// How many rows multiply_rows takes where a processor has registers of 64, 32 and 16 bytes.
constexpr int kRows512 = 12, kRows256 = 6, kRows128 = 3;

// Calls Job::template run<T, rows>(arguments...), compiled for the best vectors of the processor that it runs on. All
// that run calls must be always_inline: a function of its own would be compiled for the oldest processor.
#if defined(__x86_64__)
template <typename Job, typename T, typename... Arguments>
[[gnu::target("avx512f")]] void run_with_avx512(const Arguments&... arguments) {
  Job::template run<T, kRows512>(arguments...);
}
template <typename Job, typename T, typename... Arguments>
[[gnu::target("avx2,fma")]] void run_with_avx2(const Arguments&... arguments) {
  Job::template run<T, kRows256>(arguments...);
}
#endif

template <typename Job, typename T, typename... Arguments>
void run_vectorised(const Arguments&... arguments) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return run_with_avx512<Job, T>(arguments...);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_with_avx2<Job, T>(arguments...);
#endif
  Job::template run<T, kRows128>(arguments...);
}

}  // namespace oplab
