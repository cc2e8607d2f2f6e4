// MMDeploy's operators were linked to libonnxruntime.so.1.15.1, and ask it for one function when they are loaded. This library has
// that name and that version of the function, and passes the call to the ONNX Runtime that is installed, which still speaks the
// API of 1.15. RUNTIME is its path.
#include <dlfcn.h>

extern "C" const void* OrtGetApiBase() {
  void* runtime = dlopen(RUNTIME, RTLD_NOW | RTLD_LOCAL);
  auto* real = runtime == nullptr ? nullptr : reinterpret_cast<const void* (*)()>(dlsym(runtime, "OrtGetApiBase"));
  return real == nullptr ? nullptr : real();
}
