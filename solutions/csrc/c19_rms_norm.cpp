// c19.rms_norm: lab::RMSNorm(x T[..., n], scale T[n]; epsilon = 1e-5)
//               -> y T[..., n]
//               for T = float, float16 and bfloat16
//
//   y = x / sqrt(mean(x^2) + epsilon) * scale
//
// With epsilon = 0 a row of zeros gives 0 / 0, which is NaN.
// The mean is over the last axis. x has one axis or more, of any size:
// if it has no element, y has none. Compute in float or double, also
// for the two half types (Ort::Float16_t and Ort::BFloat16_t:
// value.ToFloat() reads, T(number) rounds a float), and round each
// result to T once (from double by way of float is accepted).
//
// Return a status with a message for an x without axes, and for a scale
// whose shape is not [n]. If epsilon is negative or NaN, no session is
// made. A model in which x and scale have different types must be
// refused; one operator for each type does that without a check.
//
// ONNX Runtime creates many kernels of one operator, and calls each of
// them from several threads at once: attributes belong to the kernel,
// the values that a run computes belong to the run. Free what you
// allocate, and only read the inputs.
// Not allowed (contains the answer): csrc/ort_ops/rms_norm.cpp.
#include "oplab_kernel.h"

#include <cmath>
#include <cstdint>

namespace {

using oplab::Tensor;

// ANSWER c19.rms_norm: the kernel, and add_operators, which adds it for all three types
float read(float value) { return value; }
float read(Ort::Float16_t value) { return value.ToFloat(); }
float read(Ort::BFloat16_t value) { return value.ToFloat(); }

template <typename T>
struct RMSNorm {
  RMSNorm(const OrtApi*, const OrtKernelInfo* info)
      : epsilon(oplab::float_attribute(info, "epsilon", 1e-5f)) {
    if (!(epsilon >= 0)) oplab::refuse("epsilon must be 0 or more.");  // NaN is not >= 0
  }

  Ort::Status Compute(const Tensor<T>& x, const Tensor<T>& scale, Tensor<T>& y) {
    const std::vector<int64_t>& shape = x.Shape();
    if (shape.empty()) oplab::refuse("x must have one axis or more.");
    const int64_t n = shape.back(), size = x.NumberOfElement();
    if (scale.Shape() != std::vector<int64_t>{n}) {
      oplab::refuse("scale must have the shape [", n, "], but it has ", oplab::shape_text(scale.Shape()), ".");
    }
    const T *in = x.Data(), *factors = scale.Data();
    T* out = y.Allocate(shape);
    for (int64_t first = 0; first < size; first += n) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double value = read(in[first + i]);
        sum += value * value;
      }
      const double root = std::sqrt(sum / static_cast<double>(n) + epsilon);
      for (int64_t i = 0; i < n; ++i) {
        const double made = read(in[first + i]) / root * read(factors[i]);
        out[first + i] = T(static_cast<float>(made));
      }
    }
    return Ort::Status{nullptr};
  }

  const float epsilon;
};

void add_operators(Ort::CustomOpDomain& domain) {
  oplab::add_for<RMSNorm, float, Ort::Float16_t, Ort::BFloat16_t>(domain, "RMSNorm");
}
// END

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lab"};
    add_operators(made);
    return made;
  });
}
