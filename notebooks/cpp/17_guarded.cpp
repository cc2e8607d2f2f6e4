// An entry point that rejects an older runtime with an error message.
#include <string>

#include "17_my_add.h"

extern "C" __attribute__((visibility("default"))) OrtStatus* ORT_API_CALL RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) {  // version 1 of the table exists in every runtime
    const std::string sentence = "The operators of `lesson` need ONNX Runtime 1." +
                                 std::to_string(ORT_API_VERSION) + " or newer; this is " +
                                 base->GetVersionString() + ".";
    return base->GetApi(1)->CreateStatus(ORT_FAIL, sentence.c_str());
  }
  Ort::InitApi(api);
  static const Sum my_add{"MyAdd", 3, 2};
  return add_domain(options, "lesson", {&my_add});
}
