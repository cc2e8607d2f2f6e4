// Project(x [n, k], w [k, m]) -> x times w with columns of length 1; how often w was prepared.
#include "oplab_kernel.h"

#include <cmath>

namespace {

using oplab::Tensor;

struct Project {
  Project(const OrtApi*, const OrtKernelInfo* info) {
    if (const auto w = oplab::constant_input<float>(info, 1)) {
      ready.resize(w->NumberOfElement());
      prepare(w->Data(), w->Shape(), ready.data());
    }
  }

  // Divides each column by its length.
  void prepare(const float* w, const std::vector<int64_t>& shape, float* to) {
    if (shape.size() != 2) oplab::refuse("w is ", oplab::shape_text(shape), ", not [k, m].");
    for (int64_t j = 0; j < shape[1]; ++j) {
      double length = 0;
      for (int64_t i = 0; i < shape[0]; ++i) length += std::pow(w[i * shape[1] + j], 2);
      if (length == 0) oplab::refuse("column ", j, " of w is zero.");
      const float by = static_cast<float>(1 / std::sqrt(length));
      for (int64_t i = 0; i < shape[0]; ++i) to[i * shape[1] + j] = by * w[i * shape[1] + j];
    }
    ++times;
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, const Tensor<float>& w,
                      Tensor<float>& y, Tensor<int64_t>& prepared) {
    oplab::Scratch<float> own(context, ready.empty() ? w.NumberOfElement() : 0);
    if (ready.empty()) prepare(w.Data(), w.Shape(), own.data());
    const float *columns = ready.empty() ? own.data() : ready.data(), *from = x.Data();
    const auto k = w.Shape()[0], m = w.Shape()[1];
    if (x.Shape().size() != 2 || x.Shape()[1] != k) oplab::refuse("x must be [n, ", k, "].");
    const int64_t n = x.Shape()[0];
    float* to = y.Allocate({n, m});
    std::fill_n(to, n * m, 0.0f);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < m; ++j) to[r * m + j] += from[r * k + i] * columns[i * m + j];
      }
    }
    *prepared.Allocate({1}) = times;
    return Ort::Status{nullptr};
  }

  std::vector<float> ready;
  std::atomic<int64_t> times{0};  // atomic: several runs may be in Compute at once
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Project>(made, "Project");
    return made;
  });
}
