// c13.parallel: lab::Blur(x float[h, w]) -> y float[h, w], total double[1]
//
// y[r] = (x[r - 1] + 2 x[r] + x[r + 1]) / 4, where row 0 stands for the row above it and row h - 1 for the row below it.
// total is the sum of y: each row in double from left to right, then the rows from top to bottom, so that every number of
// threads gives the same bits. The rows are computed through ParallelFor.
#include "oplab_kernel.h"

namespace {

struct Blur {
  Blur(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(OrtKernelContext* context, const oplab::Tensor<float>& x, oplab::Tensor<float>& y,
                      oplab::Tensor<double>& total) {
    if (x.Shape().size() != 2) return oplab::invalid("Blur: x must have two dimensions.");
    const int64_t h = x.Shape()[0], w = x.Shape()[1];
    const float* in = x.Data();
    float* out = y.Allocate(x.Shape());
    double* sum = total.Allocate({1});
    struct Rows {
      const float* in;
      float* out;
      int64_t h, w;
    } rows{in, out, h, w};
    Ort::KernelContext(context).ParallelFor(
        [](void* data, size_t index) {
          const Rows& all = *static_cast<const Rows*>(data);
          const int64_t row = static_cast<int64_t>(index), above = row > 0 ? row - 1 : 0, below = row + 1 < all.h ? row + 1 : row;
          for (int64_t i = 0; i < all.w; ++i) {
            const float outer = all.in[above * all.w + i] + all.in[below * all.w + i];
            all.out[row * all.w + i] = 0.25f * outer + 0.5f * all.in[row * all.w + i];
          }
        },
        h, 0, &rows);
    *sum = 0;
    for (int64_t row = 0; row < h; ++row) {
      double along = 0;
      for (int64_t i = 0; i < w; ++i) along += out[row * w + i];
      *sum += along;
    }
    return Ort::Status{nullptr};
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    static const oplab::Op<Blur> op{"Blur"};  // operator and domain must outlive every session
    Ort::CustomOpDomain made{"lab"};
    made.Add(&op);
    return made;
  });
}
