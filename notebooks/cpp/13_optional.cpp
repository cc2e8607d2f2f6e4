// Chapter 13: Summary(x) -> mean, sorted?, words?, and an operator that lists its outputs.
#include "oplab_kernel.h"

namespace {

using oplab::Tensor;

struct Summary {
  Summary(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(const Tensor<float>& x, Tensor<float>& mean,
                      std::optional<Tensor<float>*> sorted,
                      std::optional<Tensor<std::string>*> words) {
    const float* from = x.Data();
    const int64_t size = x.NumberOfElement();
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += from[i];
    *mean.Allocate({}) = static_cast<float>(sum / size);
    if (sorted) {
      float* to = (*sorted)->Allocate({size});
      std::copy_n(from, size, to);
      std::sort(to, to + size);
    }
    if (words) (*words)->SetStringOutput({oplab::make_string(size, " values")}, {1});
    return Ort::Status{nullptr};
  }
};

// The same question by hand, where a kernel is created: which outputs does the node have?
struct AskOutputs {
  AskOutputs(const OrtApi*, const OrtKernelInfo* raw) {
    const Ort::ConstKernelInfo info(raw);
    count = info.GetOutputCount();
    for (size_t i = 0; i < count; ++i) names += '"' + info.GetOutputName(i) + "\" ";
  }

  Ort::Status Compute(const Tensor<float>&, Tensor<std::string>& seen,
                      std::optional<Tensor<float>*>, std::optional<Tensor<float>*> last) {
    if (last) (*last)->Allocate({0});
    seen.SetStringOutput({oplab::make_string("count ", count, ": ", names)}, {1});
    return Ort::Status{nullptr};
  }

  size_t count;
  std::string names;
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Summary>(made, "Summary");
    oplab::add<AskOutputs>(made, "AskOutputs");
    return made;
  });
}
