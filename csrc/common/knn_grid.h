// Neighbours through a uniform grid of voxels: for points that fill their box about evenly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "knn_points.h"

namespace oplab {
namespace knn {

// A search begins with the voxel of the query and those around it. With k points found there, only a voxel that lies nearer
// than the worst of them can change the answer, and those are looked at next.
//
// What lies nearer is not asked of the voxel's corners, which are rounded, but of the points: `behind` and `ahead` are the
// bounds of the coordinates that really occur in the layers of voxels from one on. A point's voxel grows with its coordinate
// (rounding is monotone), so every point of those layers lies at least as far away as the bound. The search is exact.
template <typename T>
class Grid {
 public:
  // `xyz` are the batch's points; `first` is the index of the first of them. k is the number of neighbours asked for.
  Grid(const T* xyz, int64_t n, int64_t first, int64_t k) {
    const double crowd = std::max(1.0, kPointsPerNeighbour * static_cast<double>(k));
    lay_out(xyz, n, static_cast<double>(n) / crowd);

    std::vector<int64_t> voxel(n);
    start_.assign(axes_[0].layers * axes_[1].layers * axes_[2].layers + 1, 0);
    for (int64_t i = 0; i < n; ++i) {
      int64_t layer[3];
      for (int d = 0; d < 3; ++d) {
        const T coordinate = xyz[3 * i + d];
        layer[d] = axes_[d].layer(coordinate);
        axes_[d].behind[layer[d]] = std::max(axes_[d].behind[layer[d]], coordinate);
        axes_[d].ahead[layer[d]] = std::min(axes_[d].ahead[layer[d]], coordinate);
      }
      voxel[i] = row(layer[1], layer[2]) + layer[0];
      ++start_[voxel[i] + 1];
    }
    double sharing = 0;
    for (int64_t count : start_) sharing += static_cast<double>(count) * static_cast<double>(count);
    is_crowded_ = sharing / static_cast<double>(n) > kCrowded * (crowd + 1);
    if (is_crowded_) return;

    for (Axis& axis : axes_) {
      for (int64_t l = 1; l < axis.layers; ++l) axis.behind[l] = std::max(axis.behind[l], axis.behind[l - 1]);
      for (int64_t l = axis.layers - 1; l > 0; --l) axis.ahead[l - 1] = std::min(axis.ahead[l - 1], axis.ahead[l]);
    }
    // A counting sort: afterwards start_[v] is the place of voxel v's first point.
    for (size_t v = 1; v < start_.size(); ++v) start_[v] += start_[v - 1];
    std::vector<int32_t> next(start_.begin(), start_.end() - 1);
    points_.resize(n);
    for (int64_t i = 0; i < n; ++i) points_.set(next[voxel[i]]++, xyz + 3 * i, static_cast<int32_t>(first + i));
  }

  // Whether a point shares its voxel with far more others than it would if the points filled the box. Nothing else may be
  // called then.
  bool is_crowded() const { return is_crowded_; }

  const std::vector<int32_t>& order() const { return points_.index; }

  // Finds the k nearest to `query`. Gives up, and returns false, where that takes more than `budget` points and rows of
  // voxels to look at.
  bool search(const T* query, Nearest<T>& nearest, int64_t budget) const {
    int64_t home[3];
    for (int d = 0; d < 3; ++d) home[d] = axes_[d].layer(query[d]);
    Box block;
    for (int64_t radius = 1;; radius *= 2) {
      nearest.clear();
      block = around(home, radius);
      if (!look_at_block(block, home, query, nearest, budget)) return false;
      if (nearest.is_full() || is_everything(block)) break;
    }
    return look_around(block, home, query, nearest, budget);
  }

 private:
  static constexpr double kPointsPerNeighbour = 0.125, kCrowded = 6;

  // The voxels along one dimension: layers that lie side by side.
  struct Axis {
    T low;
    double per_unit;  // layers
    int64_t layers;
    std::vector<T> behind, ahead;  // the greatest coordinate in the layers up to one, and the least in those from one on

    // It grows with the coordinate. What lies outside belongs to the first or to the last layer.
    int64_t layer(T coordinate) const {
      const double place = (static_cast<double>(coordinate) - static_cast<double>(low)) * per_unit;
      if (!(place > 0)) return 0;
      return place < static_cast<double>(layers) ? static_cast<int64_t>(place) : layers - 1;
    }

    // The least distance, along this dimension alone, from a query in the layer `home` to a point in the layer `other` or
    // beyond it.
    T gap(int64_t other, int64_t home, T query) const {
      return other == home ? 0 : other < home ? query - behind[other] : ahead[other] - query;
    }
  };

  struct Box {
    int64_t from[3], to[3];  // layers, both included
  };

  // Cubes as near as possible, about `target` of them. A dimension thinner than a cube has one layer.
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
      if (!std::isfinite(extent[d])) extent[d] = 0;  // doubles from one end to the other: one layer
      widest = std::max(widest, extent[d]);
    }
    int thinnest_first[3] = {0, 1, 2};
    std::sort(thinnest_first, thinnest_first + 3, [&](int a, int b) { return extent[a] < extent[b]; });
    double side = 1;  // of a cube, as a part of the widest extent
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
      axis.behind.assign(axis.layers, -std::numeric_limits<T>::infinity());
      axis.ahead.assign(axis.layers, std::numeric_limits<T>::infinity());
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

  // Offers the points of the voxels [from, to] of a row, which lie one behind the other in memory.
  void look_at(int64_t row, int64_t from, int64_t to, const T* query, Nearest<T>& nearest, int64_t& budget) const {
    if (from > to) return;
    const int64_t begin = start_[row + from], end = start_[row + to + 1];
    budget -= end - begin;
    if (budget >= 0) points_.offer(begin, end, query, nearest);
  }

  // The query's own row first, then outwards: what is near is found early, and the rest is then refused at once.
  bool look_at_block(const Box& block, const int64_t* home, const T* query, Nearest<T>& nearest,
                     int64_t& budget) const {
    const int64_t wide = std::max({home[2] - block.from[2], block.to[2] - home[2], home[1] - block.from[1],
                                   block.to[1] - home[1]});
    for (int64_t away_z = 0; away_z <= wide; ++away_z) {
      for (int64_t z = home[2] - away_z; z <= home[2] + away_z; z += std::max(2 * away_z, int64_t{1})) {
        if (z < block.from[2] || z > block.to[2]) continue;
        const T gap_z = axes_[2].gap(z, home[2], query[2]);
        for (int64_t away_y = 0; away_y <= wide; ++away_y) {
          for (int64_t y = home[1] - away_y; y <= home[1] + away_y; y += std::max(2 * away_y, int64_t{1})) {
            if (y < block.from[1] || y > block.to[1]) continue;
            if (--budget < 0) return false;
            if (squared(T{0}, axes_[1].gap(y, home[1], query[1]), gap_z) > nearest.worst().square) continue;
            look_at(row(y, z), block.from[0], block.to[0], query, nearest, budget);
          }
        }
      }
    }
    return budget >= 0;
  }

  // The voxels outside of the block that lie nearer than the worst of the k points, or as near.
  bool look_around(const Box& block, const int64_t* home, const T* query, Nearest<T>& nearest, int64_t& budget) const {
    Box ball = block;
    for (int d = 0; d < 3; ++d) {
      const auto reaches = [&](int64_t layer) {
        const T gap = axes_[d].gap(layer, home[d], query[d]);
        return --budget >= 0 && gap * gap <= nearest.worst().square;
      };
      while (ball.from[d] > 0 && reaches(ball.from[d] - 1)) --ball.from[d];
      while (ball.to[d] + 1 < axes_[d].layers && reaches(ball.to[d] + 1)) ++ball.to[d];
    }
    if (std::equal(ball.from, ball.from + 3, block.from) && std::equal(ball.to, ball.to + 3, block.to)) {
      return budget >= 0;
    }
    for (int64_t z = ball.from[2]; z <= ball.to[2]; ++z) {
      const T gap_z = axes_[2].gap(z, home[2], query[2]);
      for (int64_t y = ball.from[1]; y <= ball.to[1]; ++y) {
        const T gap_y = axes_[1].gap(y, home[1], query[1]);
        if (--budget < 0) return false;
        const auto reaches = [&](int64_t x) {
          return squared(axes_[0].gap(x, home[0], query[0]), gap_y, gap_z) <= nearest.worst().square;
        };
        if (!reaches(home[0])) continue;
        int64_t from = home[0], to = home[0];
        while (from > ball.from[0] && reaches(from - 1)) --from;
        while (to < ball.to[0] && reaches(to + 1)) ++to;
        const bool in_block = block.from[2] <= z && z <= block.to[2] && block.from[1] <= y && y <= block.to[1];
        if (in_block) {
          look_at(row(y, z), from, block.from[0] - 1, query, nearest, budget);
          look_at(row(y, z), block.to[0] + 1, to, query, nearest, budget);
        } else {
          look_at(row(y, z), from, to, query, nearest, budget);
        }
        if (budget < 0) return false;
      }
    }
    return true;
  }

  Axis axes_[3];
  std::vector<int32_t> start_;
  Points<T> points_;
  bool is_crowded_;
};

}  // namespace knn
}  // namespace oplab
