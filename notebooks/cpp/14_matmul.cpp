// Chapter 14: a matrix product of three loops, to compare with ONNX Runtime's own.
#include <algorithm>

#include "oplab_kernel.h"

namespace {

using oplab::Tensor;

struct MatMul {
  MatMul(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(const Tensor<float>& a, const Tensor<float>& b, Tensor<float>& y) {
    const int64_t n = a.Shape()[0], k = a.Shape()[1], m = b.Shape()[1];
    const float *pa = a.Data(), *pb = b.Data();
    float* out = y.Allocate({n, m});
    std::fill_n(out, n * m, 0.0f);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t l = 0; l < k; ++l) {
        for (int64_t j = 0; j < m; ++j) out[i * m + j] += pa[i * k + l] * pb[l * m + j];
      }
    }
    return Ort::Status{nullptr};
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<MatMul>(made, "MatMul");
    return made;
  });
}
