// A small matrix product that keeps its sums in registers.
#pragma once

#include "simd.h"

// Products are summed with fused multiply-add where the processor has it, whatever the rest of the library is compiled with:
// twice the speed, and one rounding less. What includes this file computes that way from here on.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast", "no-trapping-math")
#endif

namespace oplab {

// sums[panel][row] += samples[row] x weights[panel], for matrices laid out as follows. A panel is 64 bytes of columns.
//   samples   [rows][stride], of which the first `terms` of each row count
//   weights   [panels][terms][lanes]
//   sums      [panels][tile][lanes]
template <typename T, Simd simd, int stride, int tile>
struct Product {
  using V = typename Vector<T>::type;
  static constexpr int64_t lanes = Vector<T>::lanes;
  // A block of sums: as many rows and panels as leave three registers of AVX-512 or AVX2 for the factors.
  static constexpr int kRows = simd == Simd::avx512 ? 12 : simd == Simd::avx2 ? 6 : 3;
  static constexpr int kPanels = simd == Simd::avx512 ? 2 : 1;

  [[gnu::always_inline]] static void add(const T* samples, int64_t rows, int64_t terms, const T* weights, int64_t panels,
                                         T* sums) {
    int64_t panel = 0;
    for (; panel + kPanels <= panels; panel += kPanels) {
      add_rows<kPanels>(samples, rows, terms, weights + panel * terms * lanes, sums + panel * tile * lanes);
    }
    if (panel < panels) add_rows<1>(samples, rows, terms, weights + panel * terms * lanes, sums + panel * tile * lanes);
  }

 private:
  template <int panels>
  [[gnu::always_inline]] static void add_rows(const T* samples, int64_t rows, int64_t terms, const T* weights, T* sums) {
    int64_t row = 0;
    for (; row + kRows <= rows; row += kRows) {
      add_block<kRows, panels>(samples + row * stride, terms, weights, sums + row * lanes);
    }
    for (; row < rows; row += kRows / 3) {
      add_block<kRows / 3, panels>(samples + row * stride, terms, weights, sums + row * lanes);
    }
  }

  template <int rows, int panels>
  [[gnu::always_inline]] static void add_block(const T* samples, int64_t terms, const T* weights, T* sums) {
    V sum[panels][rows];
    for (int p = 0; p < panels; ++p) std::memcpy(sum[p], sums + p * tile * lanes, sizeof(sum[p]));
    for (int64_t k = 0; k < terms; ++k) {
      V weight[panels];
      for (int p = 0; p < panels; ++p) std::memcpy(&weight[p], weights + (p * terms + k) * lanes, sizeof(V));
      for (int r = 0; r < rows; ++r) {
        for (int p = 0; p < panels; ++p) sum[p][r] += samples[r * stride + k] * weight[p];
      }
    }
    for (int p = 0; p < panels; ++p) std::memcpy(sums + p * tile * lanes, sum[p], sizeof(sum[p]));
  }
};

}  // namespace oplab
