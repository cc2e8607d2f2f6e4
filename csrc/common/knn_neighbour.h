// How near a point is, and which of two is the nearer one: the arithmetic that every search has in common, on the GPU as well.
#pragma once

#include <cstdint>

#include "device.h"

namespace oplab {
namespace knn {

// A point and its squared distance. A search compares squares; the root is computed only for the k results.
template <typename T>
struct Neighbour {
  T square;
  int32_t index;
};

// Of two points at the same distance the one with the lower index is the nearer one.
template <typename T>
OPLAB_DEVICE bool nearer(const Neighbour<T>& a, const Neighbour<T>& b) {
  return a.square < b.square || (a.square == b.square && a.index < b.index);
}

// All searches compute it in this order. Rounding is monotonic: if no difference is greater, the result is not greater
// either. So the bounds of a voxel or a box are exact, without a tolerance.
template <typename T>
OPLAB_DEVICE T squared(T dx, T dy, T dz) {
  return dx * dx + dy * dy + dz * dz;
}

// Puts a point in its place among the `count` of `list`, which are sorted. The list has an element after them, which is overwritten.
template <typename T, typename List>
OPLAB_DEVICE void insert(const Neighbour<T>& point, int64_t count, List& list) {
  int64_t place = count;
  for (; place > 0 && nearer(point, list[place - 1]); --place) list[place] = list[place - 1];
  list[place] = point;
}

}  // namespace knn
}  // namespace oplab
