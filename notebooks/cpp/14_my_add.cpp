// Chapter 14: 3a + 2b on floats, as four operators of the domain `lesson`, one for each step.
#include "oplab_kernel.h"

namespace {

using oplab::Tensor;

struct Naive {
  static void run(OrtKernelContext*, const Tensor<float>& a, const Tensor<float>& b, float* y,
                  int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = 3 * a.Data()[i] + 2 * b.Data()[i];
  }
};

struct Hoisted {
  [[gnu::optimize("no-tree-vectorize")]]  // GCC only; clang ignores it: then this is Vectorised
  static void run(OrtKernelContext*, const Tensor<float>& a, const Tensor<float>& b, float* y,
                  int64_t n) {
    const float *pa = a.Data(), *pb = b.Data();
    for (int64_t i = 0; i < n; ++i) y[i] = 3 * pa[i] + 2 * pb[i];
  }
};

struct Vectorised {
  static void run(OrtKernelContext*, const Tensor<float>& a, const Tensor<float>& b, float* y,
                  int64_t n) {
    const float *pa = a.Data(), *pb = b.Data();
    for (int64_t i = 0; i < n; ++i) y[i] = 3 * pa[i] + 2 * pb[i];
  }
};

struct Parallel {
  static void run(OrtKernelContext* context, const Tensor<float>& a, const Tensor<float>& b,
                  float* y, int64_t n) {
    const float *pa = a.Data(), *pb = b.Data();
    oplab::parallel_for(context, n, 32768, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = 3 * pa[i] + 2 * pb[i];
    });
  }
};

template <typename Step>
struct Add {
  Add(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& a, const Tensor<float>& b,
                      Tensor<float>& y) {
    Step::run(context, a, b, y.Allocate(a.Shape()), a.NumberOfElement());
    return Ort::Status{nullptr};
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Add<Naive>>(made, "Naive");
    oplab::add<Add<Hoisted>>(made, "Hoisted");
    oplab::add<Add<Vectorised>>(made, "Vectorised");
    oplab::add<Add<Parallel>>(made, "Parallel");
    return made;
  });
}
