// The same function; the exception ends at the C interface, and the caller gets a number.
#include <exception>
#include <stdexcept>

namespace {

double root_of(double value) {
  if (value < 0) throw std::invalid_argument("no root of a negative number");
  double guess = value > 1 ? value : 1;
  for (int step = 0; step < 60; ++step) guess = 0.5 * (guess + value / guess);
  return guess;
}

}  // namespace

extern "C" int checked_root(double value, double* root) noexcept {
  try {
    *root = root_of(value);
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}
