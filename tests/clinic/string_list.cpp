// Gives back its attribute, a tensor of strings.
#include "oplab_kernel.h"

namespace {

struct Strings {
  Strings(const OrtApi*, const OrtKernelInfo* info) : texts(oplab::strings_attribute(info, "texts")) {}
  Ort::Status Compute(const oplab::Tensor<float>&, oplab::Tensor<std::string>& y) {
    y.SetStringOutput(texts, {static_cast<int64_t>(texts.size())});
    return Ort::Status{nullptr};
  }
  const std::vector<std::string> texts;
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"clinic"};
    oplab::add<Strings>(made, "Strings");
    return made;
  });
}
