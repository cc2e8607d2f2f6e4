// MyAdd with the factor of 17_scaling.h, in a domain for each release.
#include "17_scaling.h"

#include "17_my_add.h"

extern "C" __attribute__((visibility("default"))) OrtStatus* ORT_API_CALL RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "ONNX Runtime is too old");
  Ort::InitApi(api);
  static const Sum my_add{"MyAdd", scaling().factor, 0};
  return add_domain(options, RELEASE == 1 ? "release1" : "release2", {&my_add});
}
