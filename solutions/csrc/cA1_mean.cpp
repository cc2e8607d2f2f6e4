// cA1.mean: one template, two C functions.
//
//   int mean_float(const float* values, int64_t count, float* result)
//   int mean_double(const double* values, int64_t count,
//                   double* result)
//
// Both write the mean of count values to *result and return 0. The sum
// is computed in double, and only the mean is rounded to the type of
// the result. A NaN is a value like any other: the mean of values with
// a NaN is NaN.
//
// There is no mean of no values: both return 1, and leave *result as it
// is, if count is 0 or negative, or if values or result is null.
//
// The templates below compile without a warning, and their author has
// tried {1, 2, 3} and {}. Delete the line with #error to run them.
#include <cmath>
#include <cstdint>
#include <optional>

namespace {

// ANSWER cA1.mean: find out for which arrays these two templates are wrong, and fix them
#if 0  // what was given
// END
template <typename T>
T mean(const T* values, int64_t count) {
  T sum = 0;
  int64_t i = 0;
  while (i < count) sum += values[i++];
  return sum / static_cast<T>(count);  // 0 / 0 is a NaN: there is no mean
}

template <typename T>
int write_mean(const T* values, int64_t count, T* result) {
  *result = mean(values, count);
  return std::isnan(*result) ? 1 : 0;
}
// ANSWER cA1.mean
#endif
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
// END

}  // namespace

extern "C" int mean_float(const float* values, int64_t count, float* result) {
  return write_mean(values, count, result);
}

extern "C" int mean_double(const double* values, int64_t count, double* result) {
  return write_mean(values, count, result);
}
