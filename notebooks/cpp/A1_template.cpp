// One template, compiled for two types.
#include <cstdint>
#include <optional>

template <typename T>
std::optional<T> largest(const T* values, int64_t count) {
  if (count == 0) return std::nullopt;  // no value is the largest of none
  T found = values[0];
  for (int64_t i = 1; i < count; ++i) {
    if (values[i] > found) found = values[i];
  }
  return found;
}

extern "C" int largest_float(const float* values, int64_t count, float* result) {
  const std::optional<float> found = largest(values, count);
  if (!found) return 1;
  *result = *found;
  return 0;
}

extern "C" int largest_int(const int32_t* values, int64_t count, int32_t* result) {
  const std::optional<int32_t> found = largest(values, count);
  if (!found) return 1;
  *result = *found;
  return 0;
}
