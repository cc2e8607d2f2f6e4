// cA1.window: an object of C++ that a caller in C owns.
//
//   void* window_new(int64_t size)
//   int window_push(void* window, float value, float* mean)
//   void window_delete(void* window)
//
// A window holds the last `size` values that were pushed; before that
// many were, it holds all of them. window_push adds a value, writes the
// mean of what the window holds now to *mean, and returns 0. The mean
// has no memory of values that have left the window: not of an
// infinity, and not of the rounding that a large number causes.
//
// No exception leaves these functions. window_new returns a null
// pointer if size is less than 1, or if there is no memory for size
// floats (9e18 of them, for example). window_push returns 1 if window
// or mean is null. window_delete frees all memory of a window, and
// ignores a null pointer.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

// ANSWER cA1.window: the class, and the three functions that a C program calls
namespace {

class Window {
 public:
  explicit Window(int64_t size) : values_(static_cast<std::size_t>(size)) {}

  float push(float value) {
    values_[next_] = value;
    next_ = (next_ + 1) % values_.size();
    if (filled_ < values_.size()) ++filled_;
    double sum = 0.0;
    for (std::size_t i = 0; i < filled_; ++i) sum += values_[i];
    return static_cast<float>(sum / static_cast<double>(filled_));
  }

 private:
  std::vector<float> values_;
  std::size_t next_ = 0, filled_ = 0;
};

}  // namespace

extern "C" void* window_new(int64_t size) {
  if (size < 1) return nullptr;
  try {
    return std::make_unique<Window>(size).release();
  } catch (const std::exception&) {  // std::bad_alloc, and what std::vector throws for a size
    return nullptr;
  }
}

extern "C" int window_push(void* window, float value, float* mean) {
  if (window == nullptr || mean == nullptr) return 1;
  *mean = static_cast<Window*>(window)->push(value);
  return 0;
}

extern "C" void window_delete(void* window) { delete static_cast<Window*>(window); }
// END
