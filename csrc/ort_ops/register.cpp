// The domain `oplab` of ONNX Runtime: the table of contents.
#include "kernels.h"
#include "oplab_kernel.h"

static Ort::CustomOpDomain oplab_domain() {
  Ort::CustomOpDomain domain{"oplab"};
  oplab::add_my_add(domain);
  oplab::add_grid(domain);
  oplab::add_foo(domain);
  oplab::add_knn_query(domain);
  oplab::add_dynamic_resize(domain);
  oplab::add_deform_conv2d(domain);
  oplab::add_var_sum(domain);
  return domain;
}

// ONNX Runtime looks this function up by its name and calls it once for each SessionOptions.
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) {  // the runtime is older than the headers; version 1 of the API can still carry the sentence
    return base->GetApi(1)->CreateStatus(
        ORT_FAIL, "oplab's kernels were compiled with headers newer than this ONNX Runtime. Compile them again.");
  }
  try {
    // The domain and its operators must outlive every session, so they live as long as this library.
    static const Ort::CustomOpDomain domain = (Ort::InitApi(api), oplab::ask_version(base), oplab_domain());
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "an unknown C++ exception while the kernels of oplab were registered");
  }
}
