// Chapter 14: one inner loop for vectors of 16, 32 and 64 bytes, in each instruction set.
#include "matrix_tile.h"
#include "oplab_kernel.h"
#include "14_add_up.h"

namespace {

using oplab::Tensor;

template <int bytes>
struct Wide {
  Wide(const OrtApi*, const OrtKernelInfo*) : simd(oplab::chosen_simd()) {}

  Ort::Status Compute(const Tensor<float>& samples, const Tensor<float>& weights,
                      Tensor<float>& y) {
    const int64_t tiles = samples.Shape()[0], terms = weights.Shape()[0];
    const int64_t columns = weights.Shape()[1];
    float* out = y.Allocate({tiles, 6, columns});
    oplab::run_vectorised<Wide>(simd, samples.Data(), weights.Data(), tiles, terms, columns,
                                out);
    return Ort::Status{nullptr};
  }

  template <oplab::Simd>  // any width, whatever the set is
  [[gnu::always_inline]] static void run(const float* samples, const float* weights,
                                         int64_t tiles, int64_t terms, int64_t columns,
                                         float* out) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const float* from = samples + tile * terms * 6;
      for (int64_t column = 0; column < columns; column += bytes / 4) {
        float* to = out + tile * 6 * columns + column;
        add_up<bytes>(from, weights + column, terms, columns, to);
      }
    }
  }

  const oplab::Simd simd;
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Wide<16>>(made, "Wide16");
    oplab::add<Wide<32>>(made, "Wide32");
    oplab::add<Wide<64>>(made, "Wide64");
    return made;
  });
}
