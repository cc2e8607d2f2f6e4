// cA1.mean: one template, two C functions.
//
//   int mean_float(const float* values, int64_t count, float* result)
//   int mean_double(const double* values, int64_t count, double* result)
//
// Both write the mean of count values to *result and return 0. The sum is computed in double,
// and only the mean is rounded to the type of the result.
//
// There is no mean of no values: both return 1, and leave *result as it is, if count is 0 or
// negative, or if values or result is null.
#include <cstdint>
#include <optional>

// ANSWER cA1.mean: a template that returns std::optional, and the two functions that call it
namespace {

template <typename T>
std::optional<T> mean(const T* values, int64_t count) {
  if (values == nullptr || count < 1) return std::nullopt;
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += values[i];
  return static_cast<T>(sum / static_cast<double>(count));
}

template <typename T>
int write_mean(const T* values, int64_t count, T* result) {
  const std::optional<T> found = mean(values, count);
  if (!found || result == nullptr) return 1;
  *result = *found;
  return 0;
}

}  // namespace

extern "C" int mean_float(const float* values, int64_t count, float* result) {
  return write_mean(values, count, result);
}

extern "C" int mean_double(const double* values, int64_t count, double* result) {
  return write_mean(values, count, result);
}
// END
