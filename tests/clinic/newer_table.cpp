// A library that asks the runtime for a table of functions that is newer than the runtime.
#include <onnxruntime_c_api.h>

#include <charconv>
#include <cstring>

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions*, const OrtApiBase* base) noexcept {
  const char* minor = base->GetVersionString() + 2;  // behind "1."
  uint32_t runtime = 0;
  std::from_chars(minor, minor + std::strlen(minor), runtime);
  const OrtApi* api = base->GetApi(runtime + 1);
  return base->GetApi(1)->CreateStatus(ORT_FAIL, api ? "there is a table" : "the table is null");
}
