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

// TODO cA1.window: the class, and the three functions that a C program calls
#error "cA1.window is not written yet"
