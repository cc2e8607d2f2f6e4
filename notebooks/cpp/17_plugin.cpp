// The entry points of a plugin execution provider. It offers no provider, and says so.
#include <onnxruntime_c_api.h>

#include <string>

struct OrtEpFactory;  // these headers do not define it

extern "C" __attribute__((visibility("default"))) OrtStatus* CreateEpFactories(
    const char* name, const OrtApiBase* base, const OrtLogger*, OrtEpFactory**, size_t most,
    size_t* count) noexcept {
  *count = 0;
  const std::string sentence = std::string(name) + ": room for " + std::to_string(most) +
                               " factories, asked by ONNX Runtime " +
                               base->GetVersionString();
  return base->GetApi(1)->CreateStatus(ORT_NOT_IMPLEMENTED, sentence.c_str());
}

extern "C" __attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(
    OrtEpFactory*) noexcept {
  return nullptr;
}
