// Registers the domain `oplab` in ONNX Runtime, with the kernels of the other files of this folder.
#include "kernels.h"
#include "oplab_kernel.h"

// ONNX Runtime looks up this function by name and calls it once for each SessionOptions.
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain domain{"oplab"};
    oplab::add_all(domain);
    return domain;
  });
}
