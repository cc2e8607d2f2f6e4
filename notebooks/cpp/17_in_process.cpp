// Runs a model with kernels that are linked into the program: 17_in_process MODEL
// With -DBY_NAME, ONNX Runtime looks up the entry point by its name.
#include <onnxruntime_cxx_api.h>

#include <cstdio>

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept;

int main(int, char** arguments) {
  Ort::InitApi();  // compiled with ORT_API_MANUAL_INIT, as the kernels are
  try {
    Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "17");
    Ort::SessionOptions options;
#ifdef BY_NAME
    options.RegisterCustomOpsUsingFunction("RegisterCustomOps");
#else
    Ort::ThrowOnError(RegisterCustomOps(options, OrtGetApiBase()));
#endif
    Ort::Session session(env, arguments[1], options);
    std::puts("the model is loaded");
    return 0;
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
  }
}
