// The k nearest neighbours in batches of points. PyTorch's operator and ONNX Runtime's kernel both call this, so that their
// results and their error messages are the same.
//
// offset[i] is the number of points in the batches 0 … i. A query finds points of its own batch alone; if the batch has fewer
// than nsample, the rest of the row is index -1 and distance 0. Of two points at the same distance the one with the lower
// index comes first. A distance is sqrt(dx*dx + dy*dy + dz*dz), computed in the points' type; two distances are equal if
// these results are.
//
// Complexity: each batch has a grid of voxels, at most 8 for each point. The voxels' size follows from the number of points
// around a point: points of a surface get smaller voxels than points that fill their box. The grid answers a query only
// within a budget of steps (kSteps for each neighbour). Where many points share a voxel, and for a query beyond the budget, a
// k-d tree is used instead. It is built in O(n log n) and answers in O(k + log n) steps if all points are equal or on a line;
// if all points have about the same distance from a query, any exact search by boxes has to visit each of them. Every search
// is exact, so the result depends neither on which of them answered nor on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dynamic_parallel_for.h"
#include "knn_checks.h"
#include "knn_grid.h"
#include "knn_tree.h"

namespace oplab {

// xyz has n points of 3 coordinates, row by row, and new_xyz the queries. If new_xyz is null, each point of xyz is a query
// and one of its own neighbours.
template <typename T>
struct KnnQuery {
  int64_t nsample;
  const T* xyz;
  std::vector<int64_t> offset;
  const T* new_xyz;
  std::vector<int64_t> new_offset;
};

namespace knn {

constexpr int64_t kSteps = 64;
constexpr int64_t kFew = 1024;   // up to so many points or queries are one piece: waking a second thread would cost more
constexpr int64_t kPiece = 128;  // queries in one piece

// The points of one batch, its queries, and the search structures.
template <typename T>
struct Batch {
  int64_t begin, end, from, to;  // points [begin, end), queries [from, to)
  std::optional<Grid<T>> grid;
  std::optional<Tree<T>> tree;
  std::atomic<bool> needs_tree{false};
};

}  // namespace knn

// Writes idx[m, nsample] and dist[m, nsample] for m queries. The shapes must have been checked.
//   n, new_n                             points of xyz and of new_xyz
//   refuse(args...)                      throws an error with the message make_string(args...)
//   outputs()                            allocates and returns {idx, dist}; called when the values have been checked
//   parallel_for(size, piece, work)      calls work(begin, end) for the pieces of [0, size)
template <typename T, typename Refuse, typename Outputs, typename ParallelFor>
void find_neighbours(const KnnQuery<T>& q, int64_t n, int64_t new_n, const Refuse& refuse, const Outputs& outputs,
                     const ParallelFor& parallel_for) {
  using namespace knn;
  check_offset("offset", q.offset, "xyz", n, refuse);
  if (q.new_xyz) check_offset("new_offset", q.new_offset, "new_xyz", new_n, refuse);
  check_finite("xyz", q.xyz, n, refuse);
  if (q.new_xyz) check_finite("new_xyz", q.new_xyz, new_n, refuse);

  const bool is_self = !q.new_xyz;
  const T* const queries = is_self ? q.xyz : q.new_xyz;
  const std::vector<int64_t>& query_offset = is_self ? q.offset : q.new_offset;
  std::vector<Batch<T>> batches(q.offset.size());
  for (size_t b = 0; b < batches.size(); ++b) {
    Batch<T>& batch = batches[b];
    batch.begin = b ? q.offset[b - 1] : 0;
    batch.end = q.offset[b];
    batch.from = b ? query_offset[b - 1] : 0;
    batch.to = query_offset[b];
  }
  check_largest(q.nsample, n, q.offset, refuse);
  const std::pair<int32_t*, T*> output = outputs();
  int32_t* const idx = output.first;
  T* const dist = output.second;

  const auto each_batch = [&](const auto& work) {
    const int64_t count = static_cast<int64_t>(batches.size());
    const int64_t piece = n <= kFew ? std::max(count, int64_t{1}) : std::max(count * kFew / n, int64_t{1});
    dynamic_parallel_for(
        parallel_for, count, piece, [] { return 0; },
        [&](int64_t begin, int64_t end, int) {
          for (int64_t b = begin; b < end; ++b) work(batches[b]);
        });
  };
  const auto grow_tree = [&](Batch<T>& batch) {
    batch.tree.emplace(q.xyz + 3 * batch.begin, batch.end - batch.begin, batch.begin);
  };
  const auto samples = [&](const Batch<T>& batch) { return std::min(q.nsample, batch.end - batch.begin); };
  const auto write = [&](int64_t row, const Neighbour<T>* found, int64_t count) {
    int32_t* const to_idx = idx + row * q.nsample;
    T* const to_dist = dist + row * q.nsample;
    for (int64_t s = 0; s < count; ++s) {
      to_idx[s] = found[s].index;
      to_dist[s] = std::sqrt(found[s].square);
    }
    std::fill(to_idx + count, to_idx + q.nsample, -1);
    std::fill(to_dist + count, to_dist + q.nsample, T{0});
  };
  struct Scratch {  // of one thread
    explicit Scratch(int64_t k) : nearest(k), found(k) {}
    Nearest<T> nearest;
    Candidates<T> candidates;
    std::vector<Neighbour<T>> found;
    T guess = 0;
  };
  // Calls work(batch, place, row, scratch, samples) for each query. If the queries are the points, they come in the order of
  // the search structure: nearby points follow each other and find the same memory in the cache. `place` is the position in
  // that order, and `row` the row of the outputs.
  constexpr int32_t kUnanswered = -2;
  const auto each_query = [&](const auto& work) {
    const int64_t m = query_offset.empty() ? 0 : query_offset.back();
    dynamic_parallel_for(
        parallel_for, m, m <= kFew ? kFew : kPiece, [] { return std::optional<Scratch>(); },
        [&](int64_t begin, int64_t end, auto& scratch) {
          const auto first = std::upper_bound(query_offset.begin(), query_offset.end(), begin);
          size_t b = static_cast<size_t>(first - query_offset.begin());
          for (int64_t i = begin; i < end; ++i) {
            while (i >= batches[b].to) ++b;
            Batch<T>& batch = batches[b];
            const size_t count = static_cast<size_t>(samples(batch));
            if (!scratch || scratch->found.size() != count) scratch.emplace(count);
            const int64_t place = i - batch.from;
            const bool is_ordered = is_self && count > 0;
            const int64_t row = is_ordered ? (batch.grid ? batch.grid->order() : batch.tree->order())[place] : i;
            work(batch, place, row, *scratch, static_cast<int64_t>(count));
          }
        });
  };

  each_batch([&](Batch<T>& batch) {
    if (batch.begin == batch.end || batch.from == batch.to) return;
    batch.grid.emplace(q.xyz + 3 * batch.begin, batch.end - batch.begin, batch.begin, samples(batch));
    if (!batch.grid->is_crowded()) return;
    batch.grid.reset();
    grow_tree(batch);
  });
  std::atomic<bool> is_unfinished{false};
  each_query([&](Batch<T>& batch, int64_t place, int64_t row, Scratch& scratch, int64_t count) {
    T query[3];
    if (is_self && batch.grid) {
      batch.grid->get(place, query);  // from the grid, where it is in the cache with its neighbours
    } else {
      std::copy(queries + 3 * row, queries + 3 * row + 3, query);
    }
    if (batch.tree) {
      batch.tree->search(query, scratch.nearest);
      write(row, scratch.nearest.sorted().data(), count);
    } else if (count == 0 || batch.grid->search(query, count, kSteps * (count + 16), scratch.candidates, scratch.guess,
                                                scratch.found.data())) {
      write(row, scratch.found.data(), count);
    } else {
      idx[row * q.nsample] = kUnanswered;
      is_unfinished = batch.needs_tree = true;
    }
  });
  if (!is_unfinished) return;
  each_batch([&](Batch<T>& batch) {
    if (batch.needs_tree) grow_tree(batch);
  });
  each_query([&](Batch<T>& batch, int64_t, int64_t row, Scratch& scratch, int64_t count) {
    if (idx[row * q.nsample] != kUnanswered) return;
    batch.tree->search(queries + 3 * row, scratch.nearest);
    write(row, scratch.nearest.sorted().data(), count);
  });
}

}  // namespace oplab
