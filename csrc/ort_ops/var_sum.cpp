// oplab::VarSum(x0, x1, ...) -> y = x0 + x1 + ..., the elementwise sum of one or more tensors of one shape, for float and
// double, added from left to right.
#include "kernels.h"
#include "oplab_kernel.h"

namespace oplab {
namespace {

template <typename T>
struct VarSum {
  VarSum(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensors<T>& x, Tensor<T>& y) {
    std::vector<const T*> terms;
    for (const Tensor<T>& term : x) {
      if (term.Shape() != x[0].Shape()) {
        return invalid("VarSum: all inputs must have the same shape, but input 0 is " + shape_text(x[0].Shape()) +
                       " and input " + std::to_string(terms.size()) + " is " + shape_text(term.Shape()) + ".");
      }
      terms.push_back(term.Data());
    }
    T* sum = y.Allocate(x[0].Shape());
    // A piece of the sum stays in the cache while all inputs are added to it.
    parallel_for(context, x[0].NumberOfElement(), 4096, [&](int64_t begin, int64_t end) {
      std::copy(terms[0] + begin, terms[0] + end, sum + begin);
      for (size_t k = 1; k < terms.size(); ++k) {
        for (int64_t i = begin; i < end; ++i) sum[i] += terms[k][i];
      }
    });
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) { infer_same_shape(shapes); }
};

}  // namespace

void add_var_sum(Ort::CustomOpDomain& domain) { add_for<VarSum, float, double>(domain, "VarSum"); }

}  // namespace oplab
