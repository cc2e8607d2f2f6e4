// Runs a model with a library of kernels that sees an older ONNX Runtime:
//   17_older_runtime LIBRARY VERSION MODEL
#include <dlfcn.h>
#include <onnxruntime_cxx_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static uint32_t newest;  // 20 for ONNX Runtime 1.20
static OrtApi table;     // the real functions of that version, and null pointers after them

// The first function that a version's table does not have.
static size_t end_of_table() {
  if (newest < 17) return offsetof(OrtApi, SetUserLoggingFunction);  // new in 1.17
  if (newest < 18) return offsetof(OrtApi, SessionOptionsAppendExecutionProvider_VitisAI);
  if (newest < 20) return offsetof(OrtApi, CreateLoraAdapter);
  return sizeof(OrtApi);
}

static const OrtApi* ORT_API_CALL get_api(uint32_t version) noexcept {
  return version <= newest ? &table : nullptr;
}

static const char* ORT_API_CALL version_string() noexcept {
  static char text[32];
  std::snprintf(text, sizeof text, "1.%u.0", newest);
  return text;
}

static float run(const char* library, const char* model) {
  using Register = OrtStatus*(ORT_API_CALL*)(OrtSessionOptions*, const OrtApiBase*);
  void* file = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!file) throw Ort::Exception(dlerror(), ORT_FAIL);
  const auto entry = reinterpret_cast<Register>(dlsym(file, "RegisterCustomOps"));
  if (!entry) throw Ort::Exception("no RegisterCustomOps", ORT_FAIL);
  const OrtApiBase base{get_api, version_string};

  Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "17");
  Ort::SessionOptions options;
  Ort::ThrowOnError(entry(options, &base));
  Ort::Session session(env, model, options);
  std::vector<float> ones(100'000, 1);
  const int64_t shape[] = {static_cast<int64_t>(ones.size())};
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  Ort::Value inputs[2] = {Ort::Value(nullptr), Ort::Value(nullptr)};
  for (Ort::Value& input : inputs) {
    input = Ort::Value::CreateTensor<float>(memory, ones.data(), ones.size(), shape, 1);
  }
  const char *names[] = {"a", "b"}, *results[] = {"y"};
  const auto outputs = session.Run(Ort::RunOptions{}, names, inputs, 2, results, 1);
  return outputs[0].GetTensorData<float>()[ones.size() - 1];
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  newest = static_cast<uint32_t>(std::atoi(arguments[2]));
  std::memcpy(&table, OrtGetApiBase()->GetApi(ORT_API_VERSION), end_of_table());
  try {
    std::printf("1 and 1 give %g\n", run(arguments[1], arguments[3]));
    return 0;
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
  }
}
