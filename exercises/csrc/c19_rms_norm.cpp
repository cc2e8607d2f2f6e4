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

// TODO c19.rms_norm: the kernel, and add_operators, which adds it for all three types
#error "c19.rms_norm is not written yet"

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lab"};
    add_operators(made);
    return made;
  });
}
