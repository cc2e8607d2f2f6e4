// Text for error messages.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace oplab {

// Its arguments as one string, each formatted as std::ostream does: make_string("x is ", 3, ".") is "x is 3."
template <typename... Args>
std::string make_string(const Args&... args) {
  std::ostringstream text;
  (text << ... << args);
  return text.str();
}

inline std::string dim_text(int64_t size) { return std::to_string(size); }
inline const std::string& dim_text(const std::string& name) { return name; }

// A shape as Python prints a list: "[2, 3]", and "[]" for a scalar. Takes any range of int64_t, or of std::string for symbolic
// dimensions.
template <typename Shape = std::vector<int64_t>>
std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const auto& dim : shape) {
    if (text.size() > 1) text += ", ";
    text += dim_text(dim);
  }
  return text + "]";
}

}  // namespace oplab
