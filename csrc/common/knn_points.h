// The k nearest points to one place, kept while a search finds better ones, and the points that a search looks at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace oplab {
namespace knn {

// A point and its squared distance. A search compares squares and takes the root of the k that are left.
template <typename T>
struct Neighbour {
  T square;
  int32_t index;
};

// Of two points at one distance the one with the lower index counts as nearer.
template <typename T>
bool nearer(const Neighbour<T>& a, const Neighbour<T>& b) {
  return a.square < b.square || (a.square == b.square && a.index < b.index);
}

// Everybody computes it in this order: rounding is monotone, so with coordinates that are nearer, or as near, it cannot come
// out greater. That makes the bounds of a voxel or a box exact, without a tolerance.
template <typename T>
T squared(T dx, T dy, T dz) {
  return dx * dx + dy * dy + dz * dz;
}

// The k nearest that were offered so far.
template <typename T>
class Nearest {
 public:
  explicit Nearest(int64_t k) : found_(k) { clear(); }

  void clear() { std::fill(found_.begin(), found_.end(), kNobody); }
  bool is_full() const { return worst().index != kNobody.index; }
  // What a point has to beat. Everything does while there are fewer than k.
  const Neighbour<T>& worst() const { return is_heap() ? found_.front() : found_.back(); }

  void offer(const Neighbour<T>& point) {
    if (!nearer(point, worst())) return;
    if (is_heap()) {
      std::pop_heap(found_.begin(), found_.end(), nearer<T>);
      found_.back() = point;
      std::push_heap(found_.begin(), found_.end(), nearer<T>);
      return;
    }
    size_t place = found_.size() - 1;
    for (; place > 0 && nearer(point, found_[place - 1]); --place) found_[place] = found_[place - 1];
    found_[place] = point;
  }

  // All of them, the nearest first. Afterwards only clear() may follow.
  const std::vector<Neighbour<T>>& sorted() {
    if (is_heap()) std::sort_heap(found_.begin(), found_.end(), nearer<T>);
    return found_;
  }

 private:
  static constexpr size_t kShort = 48;  // up to here a sorted list is faster than a heap
  static constexpr Neighbour<T> kNobody{std::numeric_limits<T>::infinity(), std::numeric_limits<int32_t>::max()};

  bool is_heap() const { return found_.size() > kShort; }

  std::vector<Neighbour<T>> found_;
};

// The points of one batch in the order in which a search stores them, and where each comes from. The coordinates lie in
// three arrays, so that the distances to several points are computed at once.
template <typename T>
class Points {
 public:
  void resize(int64_t n) {
    index.resize(n);
    for (auto& coordinate : at) coordinate.resize(n + kTogether);  // offer() reads, and ignores, a few behind the last
  }

  void set(int64_t place, const T* point, int32_t from) {
    for (int k = 0; k < 3; ++k) at[k][place] = point[k];
    index[place] = from;
  }

  // Offers the points [begin, end).
  void offer(int64_t begin, int64_t end, const T* query, Nearest<T>& nearest) const {
    for (; begin < end; begin += kTogether) {
      T square[kTogether];
      for (int64_t i = 0; i < kTogether; ++i) {
        square[i] = squared(at[0][begin + i] - query[0], at[1][begin + i] - query[1], at[2][begin + i] - query[2]);
      }
      const int64_t count = std::min(kTogether, end - begin);
      for (int64_t i = 0; i < count; ++i) {
        if (square[i] <= nearest.worst().square) nearest.offer({square[i], index[begin + i]});
      }
    }
  }

  std::vector<int32_t> index;

 private:
  static constexpr int64_t kTogether = 8;

  std::vector<T> at[3];
};

}  // namespace knn
}  // namespace oplab
