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
  static constexpr int64_t kTogether = 8;  // points that a loop looks at at once

  void resize(int64_t n) {
    // Loops read, and ignore, a few behind the last.
    index.resize(n + kTogether);
    for (auto& coordinate : at) coordinate.resize(n + kTogether);
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
  std::vector<T> at[3];
};

// Points that may be among the k nearest. A search adds whole rows of them, without asking which are near: that is decided
// afterwards for all of them at once, in loops without branches, because a processor guesses wrong at every second "is it
// nearer than the worst so far".
template <typename T>
class Candidates {
 public:
  void clear() { count_ = 0; }
  int64_t count() const { return count_; }

  // Room for so many more. The loops below work on groups and write, and ignore, a few behind the last.
  void make_room(int64_t more) {
    const size_t needed = static_cast<size_t>(count_ + more + kGroup);
    if (square_.size() < needed) square_.resize(2 * needed), index_.resize(2 * needed);
  }

  // Adds the points [begin, end). There is room for them.
  void add(const Points<T>& points, int64_t begin, int64_t end, const T* query) {
    const T* const x = points.at[0].data() + begin;
    const T* const y = points.at[1].data() + begin;
    const T* const z = points.at[2].data() + begin;
    const int32_t* const index = points.index.data() + begin;
    T* const square = square_.data() + count_;
    int32_t* const to = index_.data() + count_;
    const T qx = query[0], qy = query[1], qz = query[2];
    for (int64_t done = 0; done < end - begin; done += kGroup) {
      for (int64_t i = done; i < done + kGroup; ++i) square[i] = squared(x[i] - qx, y[i] - qy, z[i] - qz);
      for (int64_t i = done; i < done + kGroup; ++i) to[i] = index[i];
    }
    count_ += end - begin;
  }

  // How many lie within the square `limit`.
  int64_t within(T limit) const {
    const T* const square = square_.data();
    int32_t count = 0;
    for (int64_t i = 0; i < count_; ++i) count += square[i] <= limit;
    return count;
  }

  // A square that at least k points lie within, and where that is quickly found few more; `guess` is where to begin. There
  // are k points.
  T limit_for(int64_t k, T guess) const {
    T below = 0, found = -1, limit = guess;  // -1: not found
    for (int step = 0; step < kSteps; ++step) {
      const int64_t count = within(limit);
      if (count >= k) {
        found = limit;
        if (count <= k + k / 2 + 4) break;
      } else {
        below = limit;
      }
      limit = found < 0 ? limit * T{1.5} : below > 0 ? (below + found) / 2 : found * T{0.7};
    }
    return found < 0 ? farthest() : found;
  }

  T farthest() const {
    T most = 0;
    for (int64_t i = 0; i < count_; ++i) most = square_[i] > most ? square_[i] : most;
    return most;
  }

  // Leaves out those from `first` on that do not lie within the limit.
  void keep(int64_t first, T limit) {
    T* const square = square_.data();
    int32_t* const index = index_.data();
    int64_t kept = first;
    for (int64_t i = first; i < count_; ++i) {
      const T one = square[i];
      square[kept] = one;
      index[kept] = index[i];
      kept += one <= limit;
    }
    count_ = kept;
  }

  // The k nearest, in order, into `nearest`. There are k points.
  void nearest(int64_t k, Neighbour<T>* nearest) {
    if (count_ > kFew) return select(k, nearest);
    // A point's place is the number of points that are nearer. What fills the last group is nearer than none.
    T* const square = square_.data();
    int32_t* const index = index_.data();
    const int64_t padded = (count_ + kGroup - 1) / kGroup * kGroup;
    for (int64_t i = count_; i < padded; ++i) {
      square[i] = std::numeric_limits<T>::infinity();
      index[i] = std::numeric_limits<int32_t>::max();
    }
    for (int64_t i = 0; i < count_; ++i) {
      const T mine = square[i];
      const int32_t own = index[i];
      int32_t place = 0;
      for (int64_t j = 0; j < padded; ++j) {
        place += (square[j] < mine) | ((square[j] == mine) & (index[j] < own));
      }
      if (place < k) nearest[place] = {mine, own};
    }
  }

 private:
  static constexpr int64_t kGroup = Points<T>::kTogether;
  static constexpr int64_t kFew = 96;  // up to here, counting who is nearer is faster than sorting
  static constexpr int kSteps = 12;

  void select(int64_t k, Neighbour<T>* nearest) {
    all_.clear();
    for (int64_t i = 0; i < count_; ++i) all_.push_back({square_[i], index_[i]});
    std::partial_sort(all_.begin(), all_.begin() + k, all_.end(), nearer<T>);
    std::copy(all_.begin(), all_.begin() + k, nearest);
  }

  std::vector<T> square_;
  std::vector<int32_t> index_;
  std::vector<Neighbour<T>> all_;
  int64_t count_ = 0;
};

}  // namespace knn
}  // namespace oplab
