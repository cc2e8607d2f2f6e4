// The sum of an array, with one step too many.
#include <cstdint>

extern "C" float sum(const float* values, int64_t count) {
  float total = 0.0f;
  for (int64_t i = 0; i <= count; ++i) {
    total += values[i];
  }
  return total;
}

// Calls it with an array that this file owns.
extern "C" float try_sum() {
  float* values = new float[3]{1.0f, 2.0f, 3.0f};
  const float total = sum(values, 3);
  delete[] values;
  return total;
}
