// Chapter 13: Pick(x, at, scale?) -> y, outside, with the course's header.
#include "oplab_kernel.h"

namespace {

using oplab::Tensor;

struct Pick {
  Pick(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(const Tensor<float>& x, const Tensor<int64_t>& at,
                      std::optional<const Tensor<float>*> scale, Tensor<float>& y,
                      Tensor<int32_t>& outside) {
    if (scale && (*scale)->NumberOfElement() != 1) oplab::refuse("scale must have one value.");
    const float factor = scale ? *(*scale)->Data() : 1;
    const float* from = x.Data();
    const int64_t* places = at.Data();
    const int64_t size = x.NumberOfElement(), length = at.NumberOfElement();
    float* to = y.Allocate(at.Shape());
    int32_t* count = outside.Allocate({1});
    *count = 0;
    for (int64_t i = 0; i < length; ++i) {
      const bool inside = places[i] >= 0 && places[i] < size;
      to[i] = inside ? factor * from[places[i]] : 0;
      *count += !inside;
    }
    return Ort::Status{nullptr};
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Pick>(made, "Pick");
    return made;
  });
}
