// The matrix product of DeformConv2d alone, without the sampling that fills its tiles. The operator's own source is included:
// its constants, its dispatch and its flags are what is measured.
#include "deform_conv2d.cpp"

#include <cstring>
#include <thread>

namespace oplab {
namespace {

// One tile as the operator computes it: runs of kDepth terms, each for all pixels and all panels.
struct Alone {
  template <Simd simd>
  [[gnu::always_inline]] static void run(const float* samples, const float* weights, int64_t terms, int64_t panels,
                                         float* sums) {
    constexpr int64_t lanes = kPanel<float>;
    for (int64_t begin = 0; begin < terms; begin += kDepth) {
      const int64_t count = std::min(kDepth, terms - begin);
      Product<float, simd, kStride, kTile>::add(samples, kTile, count, weights + panels * begin * lanes, panels, sums);
    }
  }
};

}  // namespace
}  // namespace oplab

// Computes so many tiles, all with the same samples, and writes the sums of one of them to `result`.
//   samples  [kTile][kDepth]: each run of terms finds them in the buffer that the operator would fill again
//   weights  [terms][channels], a multiple of 16 channels
//   result   [kTile][channels]: sum over terms of samples[pixel][term % kDepth] * weights[term][channel]
// Returns 0, or -1 where the set is unknown or does not run here.
extern "C" int product(const char* name, const float* samples, const float* weights, int64_t terms, int64_t channels,
                       int64_t tiles, int threads, float* result) {
  using namespace oplab;
  constexpr int64_t lanes = kPanel<float>;
  const SimdSet* set = nullptr;
  for (const SimdSet& each : kSimdSets) {
    if (std::strcmp(each.name, name) == 0 && runs_here(each.simd)) set = &each;
  }
  if (!set || channels % lanes != 0) return -1;
  const int64_t panels = channels / lanes;
  const Buffer<float> packed = allocate<float>(terms * channels);
  for (int64_t begin = 0; begin < terms; begin += kDepth) {
    const int64_t count = std::min(kDepth, terms - begin);
    for (int64_t panel = 0; panel < panels; ++panel) {
      for (int64_t k = 0; k < count; ++k) {
        std::memcpy(packed.get() + (panels * begin + panel * count + k) * lanes,
                    weights + (begin + k) * channels + panel * lanes, lanes * sizeof(float));
      }
    }
  }
  const auto work = [&](int t) {
    const Buffer<float> rows = allocate<float>(kTile * kStride), sums = allocate<float>(panels * kTile * lanes);
    for (int64_t i = 0; i < kTile; ++i) std::memcpy(rows.get() + i * kStride, samples + i * kDepth, kDepth * sizeof(float));
    for (int64_t tile = t; tile < tiles; tile += threads) {
      std::fill_n(sums.get(), panels * kTile * lanes, 0.0f);
      run_vectorised<Alone>(set->simd, rows.get(), packed.get(), terms, panels, sums.get());
    }
    if (t != 0) return;
    for (int64_t i = 0; i < kTile; ++i) {
      for (int64_t panel = 0; panel < panels; ++panel) {
        std::memcpy(result + i * channels + panel * lanes, sums.get() + (panel * kTile + i) * lanes, lanes * sizeof(float));
      }
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& other : others) other.join();
  return 0;
}

extern "C" void product_sizes(int64_t* tile, int64_t* depth) { *tile = oplab::kTile, *depth = oplab::kDepth; }
