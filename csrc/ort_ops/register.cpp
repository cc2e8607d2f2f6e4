// Registers the domain `oplab` in ONNX Runtime, with the kernels of the other files of this folder.
#include "kernels.h"
#include "oplab_kernel.h"

// ONNX Runtime looks up this function by name and calls it once for each SessionOptions.
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain domain{"oplab"};
    oplab::add_my_add(domain);
    oplab::add_grid(domain);
    oplab::add_foo(domain);
    oplab::add_knn_query(domain);
    oplab::add_dynamic_resize(domain);
    oplab::add_deform_conv2d(domain);
    oplab::add_var_sum(domain);
    oplab::add_rms_norm(domain);
    return domain;
  });
}
