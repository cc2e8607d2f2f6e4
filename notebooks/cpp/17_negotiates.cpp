// An entry point that takes the newest table that both the headers and the runtime know.
#include <cstdio>
#include <string>

#include "17_my_add.h"

constexpr uint32_t kOldest = 16;  // ComputeV2 and CreateKernelV2 are new in it

extern "C" __attribute__((visibility("default"))) OrtStatus* ORT_API_CALL RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  uint32_t runtime = ORT_API_VERSION;  // 31 for "1.31.1"; what cannot be read counts as new
  std::sscanf(base->GetVersionString(), "1.%u", &runtime);
  const uint32_t wanted = std::min<uint32_t>(runtime, ORT_API_VERSION);
  const OrtApi* api = wanted < kOldest ? nullptr : base->GetApi(wanted);
  if (!api) {
    const std::string sentence = "The operators of `lesson` need ONNX Runtime 1." +
                                 std::to_string(kOldest) + " or newer; this is " +
                                 base->GetVersionString() + ".";
    return base->GetApi(1)->CreateStatus(ORT_FAIL, sentence.c_str());
  }
  static const Sum my_add = [&] {  // once, whichever thread comes first
    Ort::InitApi(api);
    api_version = wanted;
    return Sum{"MyAdd", 3, 2};
  }();
  return add_domain(options, "lesson", {&my_add});
}
