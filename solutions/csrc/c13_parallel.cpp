// c13.parallel: lab::Centre(x float[h, w])
//               -> y float[h, w], mean double[w]
//
// mean[i] is the mean of column i: its elements are added in double,
// from the top row to the bottom row, and the sum is divided by h.
// Without rows, mean is 0.
// y[r, i] = x[r, i] - mean[i], computed in double and rounded to float.
//
// Use ParallelFor: a table of 300 rows and 128 columns has to become
// more than one piece. Every number of threads and every order of the
// pieces must give the same bits.
//
// ONNX Runtime creates many kernels of one operator, and calls each of
// them from several threads at once: attributes belong to the kernel,
// the values that a run computes belong to the run. Free what you
// allocate, and only read the inputs.
#include "oplab_kernel.h"

#include <algorithm>
#include <vector>

namespace {

using oplab::Tensor;

struct Centre {
  Centre(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, Tensor<float>& y,
                      Tensor<double>& mean) {
    if (x.Shape().size() != 2) return oplab::invalid("Centre: x must have two dimensions.");
    const int64_t h = x.Shape()[0], w = x.Shape()[1];
    const float* in = x.Data();
    float* out = y.Allocate(x.Shape());
    double* means = mean.Allocate({w});
    // ANSWER c13.parallel: subtract the mean of each column, on ONNX Runtime's threads
    // Whole columns: no other piece adds to their sums. 16 of them fill a cache line of a row.
    oplab::parallel_for(context, w, 16, [&](int64_t begin, int64_t end) {
      std::fill(means + begin, means + end, 0.0);
      for (int64_t row = 0; row < h; ++row) {
        for (int64_t i = begin; i < end; ++i) means[i] += in[row * w + i];
      }
      const double rows = static_cast<double>(std::max<int64_t>(h, 1));
      for (int64_t i = begin; i < end; ++i) means[i] /= rows;
      for (int64_t row = 0; row < h; ++row) {
        for (int64_t i = begin; i < end; ++i) {
          out[row * w + i] = static_cast<float>(in[row * w + i] - means[i]);
        }
      }
    });
    // END
    return Ort::Status{nullptr};
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    // operator and domain must outlive every session
    static const oplab::Op<Centre> op{"Centre"};
    Ort::CustomOpDomain made{"lab"};
    made.Add(&op);
    return made;
  });
}
