// An exception that leaves a function with a C interface.
#include <stdexcept>

extern "C" int checked_root(double value, double* root) {
  if (value < 0) throw std::invalid_argument("no root of a negative number");
  double guess = value > 1 ? value : 1;
  for (int step = 0; step < 60; ++step) guess = 0.5 * (guess + value / guess);
  *root = guess;
  return 0;
}
