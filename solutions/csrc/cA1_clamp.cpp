// cA1.clamp: a C function on arrays that belong to its caller.
//
//   int clamp(const float* in, float* out, int64_t count,
//             float low, float high)
//
// in and out point to count floats each, and may point to the same
// ones. out[i] becomes low where in[i] is less than low, high where it
// is greater than high, and in[i] everywhere else. So a NaN stays a
// NaN. Returns 0.
//
// Returns 1, and writes nothing, if count is negative, if low is
// greater than high, if one of the two limits is a NaN, or if a pointer
// is null and count is not 0.
#include <cmath>
#include <cstdint>

// ANSWER cA1.clamp: the function, with its name visible to a caller that knows only C
extern "C" int clamp(const float* in, float* out, int64_t count, float low, float high) {
  if (count < 0 || std::isnan(low) || std::isnan(high) || low > high) return 1;
  if (count > 0 && (in == nullptr || out == nullptr)) return 1;
  for (int64_t i = 0; i < count; ++i) {
    const float value = in[i];
    out[i] = value < low ? low : value > high ? high : value;
  }
  return 0;
}
// END
