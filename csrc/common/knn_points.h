// The k nearest points that a search has found so far, and the points that it searches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "knn_neighbour.h"

namespace oplab {
namespace knn {

// The k nearest of the points that were offered.
template <typename T>
class Nearest {
 public:
  explicit Nearest(int64_t k) : found_(k) { clear(); }

  void clear() { std::fill(found_.begin(), found_.end(), kNone); }
  bool is_full() const { return worst().index != kNone.index; }
  // A point is kept if it is nearer than this. While there are fewer than k, every point is.
  const Neighbour<T>& worst() const { return is_heap() ? found_.front() : found_.back(); }

  void offer(const Neighbour<T>& point) {
    if (!nearer(point, worst())) return;
    if (is_heap()) {
      std::pop_heap(found_.begin(), found_.end(), nearer<T>);
      found_.back() = point;
      std::push_heap(found_.begin(), found_.end(), nearer<T>);
      return;
    }
    insert(point, static_cast<int64_t>(found_.size()) - 1, found_);
  }

  // All of them, the nearest first. Only clear() may be called afterwards.
  const std::vector<Neighbour<T>>& sorted() {
    if (is_heap()) std::sort_heap(found_.begin(), found_.end(), nearer<T>);
    return found_;
  }

 private:
  static constexpr size_t kShort = 48;  // up to here a sorted list is faster than a heap
  static constexpr Neighbour<T> kNone{std::numeric_limits<T>::infinity(), std::numeric_limits<int32_t>::max()};

  bool is_heap() const { return found_.size() > kShort; }

  std::vector<Neighbour<T>> found_;
};

// The points of one batch in the order of a search structure, and the index of each. The coordinates are in three arrays, so
// that the compiler vectorises over points.
template <typename T>
class Points {
 public:
  static constexpr int64_t kTogether = 8;  // points that one turn of a loop reads

  void resize(int64_t n) {
    // Loops read, and ignore, some elements after the last.
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

// Points that may be among the k nearest. A search adds whole rows of them without comparing distances. The comparison
// follows for all of them at once, in loops without branches, because the branch "is it nearer than the worst so far" is hard
// to predict.
template <typename T>
class Candidates {
 public:
  void clear() { count_ = 0; }
  int64_t count() const { return count_; }

  // Reserves memory for so many more. The loops below work on groups and write, and ignore, some elements after the last.
  void make_room(int64_t more) {
    const size_t needed = static_cast<size_t>(count_ + more + kGroup);
    if (square_.size() < needed) square_.resize(2 * needed), index_.resize(2 * needed);
  }

  // Adds the points [begin, end), after make_room(end - begin).
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

  // The number of points with a squared distance of at most `limit`.
  int64_t within(T limit) const {
    const T* const square = square_.data();
    int32_t count = 0;
    for (int64_t i = 0; i < count_; ++i) count += square[i] <= limit;
    return count;
  }

  // A squared distance within which there are at least k points, and few more if one is found in kSteps steps from `guess`.
  // There must be at least k points.
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

  // Removes the points from `first` on that are not within the limit.
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

  // Writes the k nearest to `nearest`, in order. There must be at least k points.
  void nearest(int64_t k, Neighbour<T>* nearest) {
    if (count_ > kFew) return select(k, nearest);
    // A point's rank is the number of points that are nearer. The padding of the last group is not nearer than any.
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
  static constexpr int64_t kFew = 96;  // up to here counting is faster than sorting
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
