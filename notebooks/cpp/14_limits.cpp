// Chapter 14: what this machine can do at best, measured on the kernels' own thread pool.
#include <algorithm>
#include <chrono>

#include "matrix_tile.h"
#include "oplab_kernel.h"

namespace {

template <typename Work>
double best_seconds(int times, const Work& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto started = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - started).count());
  }
  return best;
}

// Independent chains of multiply and add, a register each, so that none waits for another.
struct Chains {
  template <oplab::Simd simd>
  [[gnu::always_inline]] static void run(const int64_t& steps, float* out) {
    OPLAB_FUSED_SUMS
    using Register = oplab::Vector<float, simd>;
    // 12 chains are too few where the processor starts four multiply-adds at once
    constexpr int chains = oplab::Registers<simd>::count == 32 ? 24 : 12;
    typename Register::type sum[chains], factor = typename Register::type{} + 1e-6f;
    for (int r = 0; r < chains; ++r) {
      sum[r] = factor * static_cast<float>(r + 1);  // different: GCC computes equal chains once
    }
    for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 24
      for (int r = 0; r < chains; ++r) sum[r] += sum[r] * factor;
    }
    for (int r = 1; r < chains; ++r) sum[0] += sum[r];
    out[0] = sum[0][0];
    out[1] = 2.0f * chains * Register::lanes;  // operations of one step
  }
};

struct Limits {  // n -> GB/s of a triad of n floats, GFLOP/s of the chains
  Limits(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(OrtKernelContext* context, const oplab::Tensor<int64_t>& n,
                      oplab::Tensor<float>& limits) {
    float* out = limits.Allocate({2});
    out[0] = triad(context, *n.Data());
    out[1] = chains(context);
    return Ort::Status{nullptr};
  }

  static float triad(OrtKernelContext* context, int64_t size) {
    std::vector<float> a(size, 1), b(size, 2), c(size, 0);
    const double seconds = best_seconds(25, [&] {
      oplab::parallel_for(context, size, size / 16, [&](int64_t begin, int64_t end) {
        const float *from = a.data(), *more = b.data();
        for (int64_t i = begin; i < end; ++i) c[i] = from[i] + 3 * more[i];
      });
    });
    return static_cast<float>(12e-9 * static_cast<double>(size) / seconds);
  }

  static float chains(OrtKernelContext* context) {
    constexpr int64_t pieces = 16, steps = 10000;
    const oplab::Simd simd = oplab::chosen_simd();
    std::vector<float> made(16 * pieces);
    const double seconds = best_seconds(100, [&] {
      oplab::parallel_for(context, pieces, 1, [&](int64_t piece, int64_t) {
        oplab::run_vectorised<Chains>(simd, steps, &made[16 * piece]);
      });
    });
    return static_cast<float>(1e-9 * static_cast<double>(made[1]) * steps * pieces / seconds);
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Limits>(made, "Limits");
    return made;
  });
}
