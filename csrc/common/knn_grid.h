// Neighbour search in a uniform grid of voxels, for points that fill their box about evenly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "knn_points.h"

namespace oplab {
namespace knn {

// A search starts with all points in the query's voxel and in those around it. A distance within which there are k of them is
// found by counting, and only a voxel within that limit can still change the result: those are searched next. The points
// within the limit, k and some more, are then sorted.
//
// The distance to a voxel does not come from its corners, which are rounded, but from the points: `prefix_max` and `suffix_min` are
// the bounds of the coordinates that occur in a layer of voxels and the layers beyond it. A point's layer does not decrease
// with its coordinate (rounding is monotonic), so each point of those layers is at least as far away as the bound. The search
// is exact.
template <typename T>
class Grid {
 public:
  // xyz: the n points of the batch; `first` is the index of the first of them. k: how many neighbours a search will ask for.
  Grid(const T* xyz, int64_t n, int64_t first, int64_t k) {
    // Points that fill their box need few voxels. Points of a surface leave most voxels empty and need more, and so do points
    // with outliers.
    const double wanted = kPointsPerNeighbour * static_cast<double>(k);
    const double most = std::min(kVoxelsPerPoint * static_cast<double>(n), 2e9);  // int32 numbers them
    std::vector<int32_t> voxel(n);
    double target = 27 * static_cast<double>(n) / wanted;
    for (int attempt = 0;; ++attempt) {
      target = std::min(target, most);
      lay_out(xyz, n, target);
      count(xyz, n, voxel);
      const std::pair<double, double> around = points_around(xyz, n);
      is_crowded_ = around.second > kCrowded * wanted;
      if (attempt == kAttempts || target >= most || around.first < 1.5 * wanted) break;
      target *= std::pow(around.first / wanted, 1.5);
    }
    if (is_crowded_) return;

    for (Axis& axis : axes_) {
      for (int64_t l = 1; l < axis.layers; ++l) axis.prefix_max[l] = std::max(axis.prefix_max[l], axis.prefix_max[l - 1]);
      for (int64_t l = axis.layers - 1; l > 0; --l) axis.suffix_min[l - 1] = std::min(axis.suffix_min[l - 1], axis.suffix_min[l]);
    }
    // A counting sort: afterwards start_[v] is the position of voxel v's first point.
    for (size_t v = 1; v < start_.size(); ++v) start_[v] += start_[v - 1];
    points_.resize(n);
    for (int64_t i = n - 1; i >= 0; --i) points_.set(--start_[voxel[i] + 1], xyz + 3 * i, static_cast<int32_t>(first + i));
    start_.erase(start_.begin());
    start_.push_back(static_cast<int32_t>(n));
  }

  // Whether a quarter of the points have many more points around them than a search should visit, however small the voxels.
  // No other function may be called then.
  bool is_crowded() const { return is_crowded_; }

  const std::vector<int32_t>& order() const { return points_.index; }
  // The coordinates of the point at this position of order().
  void get(int64_t place, T* point) const {
    for (int d = 0; d < 3; ++d) point[d] = points_.at[d][place];
  }

  // Writes the k nearest to `query`, in order. Returns false if that would visit more than `budget` points and rows of
  // voxels. `guess` is about the square of the k-th distance, kept from one search to the next; the result does not depend on
  // it.
  bool search(const T* query, int64_t k, int64_t budget, Candidates<T>& found, T& guess, Neighbour<T>* nearest) const {
    int64_t home[3];
    for (int d = 0; d < 3; ++d) home[d] = axes_[d].layer(query[d]);
    Box block;
    for (int64_t radius = 1;; radius *= 2) {
      found.clear();
      block = around(home, radius);
      if (!add_block(block, query, found, budget)) return false;
      if (found.count() >= k || is_everything(block)) break;
    }
    const T limit = found.limit_for(k, guess);
    found.keep(0, limit);
    if (!add_around(block, home, query, limit, found, budget)) return false;
    found.nearest(k, nearest);
    guess = nearest[k - 1].square * T{1.15};
    return true;
  }

 private:
  // Points in a block of 27 voxels: with fewer, most searches have to leave the block; with more, most points are too far away.
  static constexpr double kPointsPerNeighbour = 6.5;
  static constexpr double kVoxelsPerPoint = 8, kCrowded = 4;
  static constexpr int64_t kSamples = 200;
  static constexpr int kAttempts = 3;

  struct Box {
    int64_t from[3], to[3];  // layers, inclusive
  };

  // The layers of voxels along one dimension.
  struct Axis {
    T low;
    double per_unit;  // layers
    int64_t layers;
    std::vector<T> prefix_max, suffix_min;  // the greatest coordinate in layers [0, i], and the least in layers [i, layers)

    // Does not decrease with the coordinate. A coordinate outside of the box belongs to the first or to the last layer.
    int64_t layer(T coordinate) const {
      const double place = (static_cast<double>(coordinate) - static_cast<double>(low)) * per_unit;
      if (!(place > 0)) return 0;
      return place < static_cast<double>(layers) ? static_cast<int64_t>(place) : layers - 1;
    }

    // The least distance, along this dimension alone, from a query in the layer `home` to a point in the layer `other` or
    // beyond it.
    T gap(int64_t other, int64_t home, T query) const {
      return other == home ? 0 : other < home ? query - prefix_max[other] : suffix_min[other] - query;
    }
  };

  // Counts the points of each voxel, and finds the bounds of the layers.
  void count(const T* xyz, int64_t n, std::vector<int32_t>& voxel) {
    start_.assign(axes_[0].layers * axes_[1].layers * axes_[2].layers + 1, 0);
    for (int64_t i = 0; i < n; ++i) {
      int64_t layer[3];
      for (int d = 0; d < 3; ++d) {
        const T coordinate = xyz[3 * i + d];
        layer[d] = axes_[d].layer(coordinate);
        axes_[d].prefix_max[layer[d]] = std::max(axes_[d].prefix_max[layer[d]], coordinate);
        axes_[d].suffix_min[layer[d]] = std::min(axes_[d].suffix_min[layer[d]], coordinate);
      }
      voxel[i] = static_cast<int32_t>(row(layer[1], layer[2]) + layer[0]);
      ++start_[voxel[i] + 1];
    }
  }

  // The number of points in the voxel of a point and in those around it: median and third quartile over a sample of the points.
  std::pair<double, double> points_around(const T* xyz, int64_t n) const {
    std::vector<int64_t> around_some;
    for (int64_t i = 0; i < n; i += std::max(n / kSamples, int64_t{1})) {
      int64_t home[3], sum = 0;
      for (int d = 0; d < 3; ++d) home[d] = axes_[d].layer(xyz[3 * i + d]);
      const Box block = around(home, 1);
      for (int64_t z = block.from[2]; z <= block.to[2]; ++z) {
        for (int64_t y = block.from[1]; y <= block.to[1]; ++y) {
          for (int64_t x = block.from[0]; x <= block.to[0]; ++x) sum += start_[row(y, z) + x + 1];
        }
      }
      around_some.push_back(sum);
    }
    std::sort(around_some.begin(), around_some.end());
    return {around_some[around_some.size() / 2], around_some[around_some.size() * 3 / 4]};
  }

  // Divides the box into about `target` voxels, as near to cubes as possible. A dimension thinner than a cube has one layer.
  void lay_out(const T* xyz, int64_t n, double target) {
    double extent[3], widest = 0;
    for (int d = 0; d < 3; ++d) {
      T low = xyz[d], high = xyz[d];
      for (int64_t i = 1; i < n; ++i) {
        low = std::min(low, xyz[3 * i + d]);
        high = std::max(high, xyz[3 * i + d]);
      }
      axes_[d].low = low;
      extent[d] = static_cast<double>(high) - static_cast<double>(low);
      if (!std::isfinite(extent[d])) extent[d] = 0;  // the difference of two doubles overflowed: one layer
      widest = std::max(widest, extent[d]);
    }
    int thinnest_first[3] = {0, 1, 2};
    std::sort(thinnest_first, thinnest_first + 3, [&](int a, int b) { return extent[a] < extent[b]; });
    double side = 1;  // of a cube, relative to the widest extent
    for (int skip = 0; skip < 3; ++skip) {
      double volume = 1 / target;
      for (int s = skip; s < 3; ++s) volume *= widest > 0 ? extent[thinnest_first[s]] / widest : 0;
      side = std::pow(volume, 1.0 / (3 - skip));
      if (side > 0 && extent[thinnest_first[skip]] >= side * widest) break;
    }
    for (int d = 0; d < 3; ++d) {
      Axis& axis = axes_[d];
      const double layers = side > 0 && widest > 0 ? extent[d] / widest / side : 1;
      axis.layers = static_cast<int64_t>(std::min(std::max(layers, 1.0), std::max(target, 1.0)));
      axis.per_unit = static_cast<double>(axis.layers) / extent[d];
      if (!std::isfinite(axis.per_unit)) axis.layers = 1, axis.per_unit = 0;
      axis.prefix_max.assign(axis.layers, -std::numeric_limits<T>::infinity());
      axis.suffix_min.assign(axis.layers, std::numeric_limits<T>::infinity());
    }
  }

  int64_t row(int64_t y, int64_t z) const { return (z * axes_[1].layers + y) * axes_[0].layers; }

  Box around(const int64_t* home, int64_t radius) const {
    Box box;
    for (int d = 0; d < 3; ++d) {
      box.from[d] = std::max(home[d] - radius, int64_t{0});
      box.to[d] = std::min(home[d] + radius, axes_[d].layers - 1);
    }
    return box;
  }

  bool is_everything(const Box& box) const {
    for (int d = 0; d < 3; ++d) {
      if (box.from[d] > 0 || box.to[d] + 1 < axes_[d].layers) return false;
    }
    return true;
  }

  // Adds the points of the voxels [from, to] of a row, which are contiguous in memory.
  bool add_row(int64_t row, int64_t from, int64_t to, const T* query, Candidates<T>& found, int64_t& budget) const {
    const int64_t begin = start_[row + from], end = start_[row + to + 1];
    budget -= end - begin + 1;
    if (budget < 0) return false;
    found.make_room(end - begin);
    found.add(points_, begin, end, query);
    return true;
  }

  bool add_block(const Box& block, const T* query, Candidates<T>& found, int64_t& budget) const {
    for (int64_t z = block.from[2]; z <= block.to[2]; ++z) {
      for (int64_t y = block.from[1]; y <= block.to[1]; ++y) {
        if (!add_row(row(y, z), block.from[0], block.to[0], query, found, budget)) return false;
      }
    }
    return true;
  }

  // Adds the points outside of the block that are within the limit.
  bool add_around(const Box& block, const int64_t* home, const T* query, T limit, Candidates<T>& found,
                  int64_t& budget) const {
    Box ball = block;
    for (int d = 0; d < 3; ++d) {
      const auto reaches = [&](int64_t layer) {
        const T gap = axes_[d].gap(layer, home[d], query[d]);
        return --budget >= 0 && gap * gap <= limit;
      };
      while (ball.from[d] > 0 && reaches(ball.from[d] - 1)) --ball.from[d];
      while (ball.to[d] + 1 < axes_[d].layers && reaches(ball.to[d] + 1)) ++ball.to[d];
    }
    if (budget < 0) return false;
    if (std::equal(ball.from, ball.from + 3, block.from) && std::equal(ball.to, ball.to + 3, block.to)) return true;
    const int64_t first = found.count();
    for (int64_t z = ball.from[2]; z <= ball.to[2]; ++z) {
      const T gap_z = axes_[2].gap(z, home[2], query[2]);
      for (int64_t y = ball.from[1]; y <= ball.to[1]; ++y) {
        const T gap_y = axes_[1].gap(y, home[1], query[1]);
        if (--budget < 0) return false;
        const auto reaches = [&](int64_t x) {
          return squared(axes_[0].gap(x, home[0], query[0]), gap_y, gap_z) <= limit;
        };
        if (!reaches(home[0])) continue;
        const bool in_block = block.from[2] <= z && z <= block.to[2] && block.from[1] <= y && y <= block.to[1];
        int64_t from = in_block ? block.from[0] : home[0], to = in_block ? block.to[0] : home[0];
        while (from > ball.from[0] && reaches(from - 1)) --from;
        while (to < ball.to[0] && reaches(to + 1)) ++to;
        if (!in_block) {
          if (!add_row(row(y, z), from, to, query, found, budget)) return false;
          continue;
        }
        if (from < block.from[0] && !add_row(row(y, z), from, block.from[0] - 1, query, found, budget)) return false;
        if (to > block.to[0] && !add_row(row(y, z), block.to[0] + 1, to, query, found, budget)) return false;
      }
    }
    found.keep(first, limit);
    return true;
  }

  Axis axes_[3];
  std::vector<int32_t> start_;
  Points<T> points_;
  bool is_crowded_;
};

}  // namespace knn
}  // namespace oplab
