// The same function with two mistakes.
#include <cstdint>

extern "C" void scale(const float* in, float* out, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = facter * in[i];
    in[i] = 0.0f;
  }
}
