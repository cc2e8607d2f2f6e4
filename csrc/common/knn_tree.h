// Neighbour search in a k-d tree, for points that a grid does not separate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "knn_points.h"

namespace oplab {
namespace knn {

// Each node splits its points at the median of the widest side of their bounds. Equal coordinates are split by index, and a node
// stores the least index below it, so that a search skips a node that could only add ties with higher indices: a query costs
// O(k + log n) if all points are equal, as for points on a line.
template <typename T>
class Tree {
 public:
  // xyz: n points; `first` is the index of the first of them.
  Tree(const T* xyz, int64_t n, int64_t first) {
    std::vector<int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    points_.resize(n);
    if (n > 0) grow(xyz, order, 0, static_cast<int32_t>(n), static_cast<int32_t>(first));
  }

  const std::vector<int32_t>& order() const { return points_.index; }

  // Leaves the k points nearest to `query` in `nearest`.
  void search(const T* query, Nearest<T>& nearest) const {
    nearest.clear();
    if (!nodes_.empty()) search(0, query, nearest);
  }

 private:
  static constexpr int32_t kLeaf = 16;

  struct Node {
    T low[3], high[3];
    int32_t least_index;
    int32_t begin, end;  // its points
    int32_t right;       // the second child; the first one follows the node itself. 0 for a leaf
  };

  void grow(const T* xyz, std::vector<int32_t>& order, int32_t begin, int32_t end, int32_t first) {
    Node node;
    std::copy(xyz + 3 * int64_t{order[begin]}, xyz + 3 * int64_t{order[begin]} + 3, node.low);
    std::copy(node.low, node.low + 3, node.high);
    node.least_index = order[begin];
    for (int32_t i = begin + 1; i < end; ++i) {
      const T* point = xyz + 3 * int64_t{order[i]};
      for (int d = 0; d < 3; ++d) {
        node.low[d] = std::min(node.low[d], point[d]);
        node.high[d] = std::max(node.high[d], point[d]);
      }
      node.least_index = std::min(node.least_index, order[i]);
    }
    node.least_index += first;
    node.begin = begin;
    node.end = end;
    node.right = 0;
    const size_t self = nodes_.size();
    nodes_.push_back(node);
    if (end - begin <= kLeaf) {
      for (int32_t i = begin; i < end; ++i) points_.set(i, xyz + 3 * int64_t{order[i]}, first + order[i]);
      return;
    }
    int widest = 0;
    for (int d = 1; d < 3; ++d) {
      if (node.high[d] - node.low[d] > node.high[widest] - node.low[widest]) widest = d;
    }
    const int32_t middle = begin + (end - begin) / 2;
    std::nth_element(order.begin() + begin, order.begin() + middle, order.begin() + end, [&](int32_t a, int32_t b) {
      const T at_a = xyz[3 * int64_t{a} + widest], at_b = xyz[3 * int64_t{b} + widest];
      return at_a < at_b || (at_a == at_b && a < b);
    });
    grow(xyz, order, begin, middle, first);
    nodes_[self].right = static_cast<int32_t>(nodes_.size());
    grow(xyz, order, middle, end, first);
  }

  // No point of the node is nearer than this.
  static Neighbour<T> bound(const Node& node, const T* query) {
    T gap[3];
    for (int d = 0; d < 3; ++d) gap[d] = std::max(std::max(node.low[d] - query[d], query[d] - node.high[d]), T{0});
    return {squared(gap[0], gap[1], gap[2]), node.least_index};
  }

  void search(int32_t at, const T* query, Nearest<T>& nearest) const {
    const Node& node = nodes_[at];
    if (!node.right) {
      points_.offer(node.begin, node.end, query, nearest);
      return;
    }
    int32_t child[2] = {at + 1, node.right};
    Neighbour<T> bounds[2] = {bound(nodes_[child[0]], query), bound(nodes_[child[1]], query)};
    if (nearer(bounds[1], bounds[0])) {
      std::swap(child[0], child[1]);
      std::swap(bounds[0], bounds[1]);
    }
    for (int c = 0; c < 2; ++c) {
      if (nearer(bounds[c], nearest.worst())) search(child[c], query, nearest);
    }
  }

  std::vector<Node> nodes_;
  Points<T> points_;
};

}  // namespace knn
}  // namespace oplab
