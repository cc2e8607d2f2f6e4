// A small matrix product that keeps its sums in registers.
#pragma once

#include "../common/simd.h"

namespace oplab {

// A panel is 64 bytes of columns: one register of AVX-512, two of AVX2, four of SSE2 and NEON.
template <typename T>
constexpr int64_t kPanel = 64 / sizeof(T);

// sums[panel][row] += samples[row] x weights[panel], for matrices with these layouts:
//   samples   [rows][stride], of which the first `terms` of each row are used
//   weights   [panels][terms][kPanel]
//   sums      [panels][tile][kPanel]
// `tile` is a multiple of 4, and samples and sums hold `tile` rows: the last block may read and write up to three rows after
// `rows`. Set unused samples to 0.
template <typename T, Simd simd, int stride, int tile>
struct Product {
  using V = typename Vector<T, simd>::type;
  static constexpr int64_t lanes = Vector<T, simd>::lanes, panel_lanes = kPanel<T>;
  static constexpr int kParts = panel_lanes / lanes;  // registers that hold one row of a panel
  // A block of sums has as many rows and panels as leave registers for the factors. With AVX-512 and AVX2 the sums take 24 of 32
  // and 12 of 16 registers. SSE2 needs one more for each product before it is added, and NEON one for each sample.
  static constexpr int kRows = simd == Simd::avx512 ? 12 : simd == Simd::avx2 ? 6 : simd == Simd::neon ? 4 : 3;
  static constexpr int kPanels = simd == Simd::avx512 ? 2 : 1;

  [[gnu::always_inline]] static void add(const T* samples, int64_t rows, int64_t terms, const T* weights, int64_t panels,
                                         T* sums) {
    int64_t panel = 0;
    for (; panel + kPanels <= panels; panel += kPanels) {
      add_rows<kPanels>(samples, rows, terms, weights + panel * terms * panel_lanes, sums + panel * tile * panel_lanes);
    }
    if (panel < panels) {
      add_rows<1>(samples, rows, terms, weights + panel * terms * panel_lanes, sums + panel * tile * panel_lanes);
    }
  }

 private:
  template <int panels>
  [[gnu::always_inline]] static void add_rows(const T* samples, int64_t rows, int64_t terms, const T* weights, T* sums) {
    int64_t row = 0;
    for (; row + kRows <= rows; row += kRows) {
      add_block<kRows, panels>(samples + row * stride, terms, weights, sums + row * panel_lanes);
    }
    if (row + kRows / 3 < rows) {
      add_block<2 * kRows / 3, panels>(samples + row * stride, terms, weights, sums + row * panel_lanes);
      row += 2 * kRows / 3;
    }
    if (row < rows) {
      add_block<kRows / 3, panels>(samples + row * stride, terms, weights, sums + row * panel_lanes);
    }
  }

  template <int rows, int panels>
  [[gnu::always_inline]] static void add_block(const T* samples, int64_t terms, const T* weights, T* sums) {
    OPLAB_FUSED_SUMS
    // The loops that read and write the sums are unrolled: with a loop over them left, GCC would copy all of them through the
    // stack before it writes them.
    V sum[panels][rows][kParts], weight[panels][kParts];
    const auto at = [](int64_t row, int64_t part) { return row * panel_lanes + part * lanes; };
    for (int p = 0; p < panels; ++p) {
      OPLAB_UNROLL
      for (int r = 0; r < rows; ++r) {
        OPLAB_UNROLL
        for (int part = 0; part < kParts; ++part) {
          std::memcpy(&sum[p][r][part], sums + at(p * tile + r, part), sizeof(V));
        }
      }
    }
    for (int64_t k = 0; k < terms; ++k) {
      // The next panels' weights, which may not be in the cache. It is a separate loop, and SSE2 has none, because GCC 11 would
      // otherwise keep sums on the stack.
      if constexpr (simd != Simd::plain) {
        for (int p = 0; p < panels; ++p) __builtin_prefetch(weights + at((panels + p) * terms + k, 0), 0, 2);
      }
      for (int p = 0; p < panels; ++p) {
        for (int part = 0; part < kParts; ++part) {
          std::memcpy(&weight[p][part], weights + at(p * terms + k, part), sizeof(V));
        }
      }
      for (int r = 0; r < rows; ++r) {
        for (int p = 0; p < panels; ++p) {
          for (int part = 0; part < kParts; ++part) sum[p][r][part] += samples[r * stride + k] * weight[p][part];
        }
      }
    }
    for (int p = 0; p < panels; ++p) {
      OPLAB_UNROLL
      for (int r = 0; r < rows; ++r) {
        OPLAB_UNROLL
        for (int part = 0; part < kParts; ++part) {
          std::memcpy(sums + at(p * tile + r, part), &sum[p][r][part], sizeof(V));
        }
      }
    }
  }
};

}  // namespace oplab
