// Chapter 14: the inner loop of a matrix product, for vectors of any width. 14_width.cpp makes
// an operator of it. Compiled alone, with -DBYTES=32, it is the assembly that the lesson shows.
#pragma once

#include <cstdint>
#include <cstring>

#ifndef OPLAB_FUSED_SUMS  // of csrc/common/simd.h: a product and a sum may be one instruction
#define OPLAB_FUSED_SUMS
#endif

// out[6][columns] = samples[terms][6], transposed, times weights[terms][columns];
// `bytes` is the size of a vector.
template <int bytes>
[[gnu::always_inline]] inline void add_up(const float* samples, const float* weights,
                                          int64_t terms, int64_t columns, float* out) {
  OPLAB_FUSED_SUMS
  typedef float V __attribute__((vector_size(bytes)));
  V sum[6] = {}, weight;
  for (int64_t k = 0; k < terms; ++k) {
    std::memcpy(&weight, weights + k * columns, bytes);
    for (int r = 0; r < 6; ++r) sum[r] += samples[6 * k + r] * weight;
  }
  for (int r = 0; r < 6; ++r) std::memcpy(out + r * columns, &sum[r], bytes);
}

#ifdef BYTES
void one_tile(const float* samples, const float* weights, int64_t terms, float* out) {
  add_up<BYTES>(samples, weights, terms, BYTES / 4, out);
}
#endif
