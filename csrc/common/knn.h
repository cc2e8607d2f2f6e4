// The k nearest neighbours in batches of points. PyTorch's operator and ONNX Runtime's kernel both call this, so that they
// give the same numbers and refuse the same things with the same sentence.
//
// offset[i] is the number of points in the batches 0 … i. A query finds points of its own batch alone; where the batch has
// fewer than nsample, the rest of the row is index -1 and distance 0. Of two points at one distance the one with the lower
// index comes first. A distance is sqrt(dx*dx + dy*dy + dz*dz) in the points' own type, and equal is what is equal then.
//
// How long it takes: each batch has a grid of voxels, at most 8 for each point, whose size follows from how many points lie
// around a point: points of a surface get smaller ones than points that fill their box. It answers a query only while that
// costs few steps (kSteps for each neighbour). Where points crowd in few voxels, and for each query that is dearer, a k-d tree
// takes over. It is built in O(n log n) and answers in O(k + log n) steps where all points are equal or lie on a line; points that all lie at about the
// same distance from a query have to be looked at one by one in any exact search by boxes. Every search is exact, so the
// answer does not depend on which one gave it, nor on the number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "knn_grid.h"
#include "knn_tree.h"
#include "share_out.h"

namespace oplab {

// xyz are n points of 3 coordinates. Without new_xyz every point asks for its own neighbours, and is one of them.
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
constexpr int64_t kFew = 1024;   // so many points or queries are not worth waking a second thread for
constexpr int64_t kPiece = 128;  // queries that a thread answers at once

using Shape = std::vector<int64_t>;

inline std::string text(const Shape& shape) {
  std::string words = "[";
  for (int64_t size : shape) words += (words.size() > 1 ? ", " : "") + std::to_string(size);
  return words + "]";
}

template <typename Refuse>
void check_points(const char* name, const Shape& shape, const Refuse& refuse) {
  if (shape.size() != 2 || shape[1] != 3) {
    refuse(name, " must have the shape [n, 3], but its shape is ", text(shape), ".");
  }
}

template <typename Refuse>
void check_offset_shape(const char* name, const Shape& shape, const Refuse& refuse) {
  if (shape.size() != 1) refuse(name, " must have one dimension, but its shape is ", text(shape), ".");
}

template <typename Refuse>
void check_nsample(int64_t nsample, const Refuse& refuse) {
  if (nsample < 1) refuse("nsample must be at least 1, but it is ", nsample, ".");
}

// What can be said before any value is read.
template <typename Refuse>
void check_shapes(int64_t nsample, const Shape& xyz, const Shape& offset, const std::optional<Shape>& new_xyz,
                  const std::optional<Shape>& new_offset, const Refuse& refuse) {
  check_nsample(nsample, refuse);
  check_points("xyz", xyz, refuse);
  check_offset_shape("offset", offset, refuse);
  if (new_xyz.has_value() != new_offset.has_value()) {
    refuse("new_xyz and new_offset must come together, but only ", new_xyz ? "new_xyz" : "new_offset", " is given.");
  }
  if (new_xyz) {
    check_points("new_xyz", *new_xyz, refuse);
    check_offset_shape("new_offset", *new_offset, refuse);
    if (*new_offset != offset) {  // of one dimension both
      refuse("new_offset must have one value for each of offset's ", offset[0], " batches, but it has ",
             (*new_offset)[0], ".");
    }
  }
  if (xyz[0] >= std::numeric_limits<int32_t>::max()) {
    refuse("xyz must have fewer than 2**31 - 1 points, which idx can number, but it has ", xyz[0], ".");
  }
}

// `points` is the name of what `offset`, called `name`, divides into batches.
template <typename Refuse>
void check_offset(const char* name, const std::vector<int64_t>& offset, const char* points, int64_t n,
                  const Refuse& refuse) {
  for (size_t i = 0; i < offset.size(); ++i) {
    if (offset[i] < 0) refuse(name, " must not be negative, but ", name, "[", i, "] is ", offset[i], ".");
    if (i > 0 && offset[i] < offset[i - 1]) {
      refuse(name, " must not decrease, but ", name, "[", i - 1, "] is ", offset[i - 1], " and ", name, "[", i, "] is ",
             offset[i], ".");
    }
    if (offset[i] > n) {
      refuse(name, " must not exceed the ", n, " points of ", points, ", but ", name, "[", i, "] is ", offset[i], ".");
    }
  }
  if (offset.empty() && n > 0) refuse(name, " must end at the ", n, " points of ", points, ", but it is empty.");
  if (!offset.empty() && offset.back() != n) {
    refuse(name, " must end at the ", n, " points of ", points, ", but ", name, "[", offset.size() - 1, "] is ",
           offset.back(), ".");
  }
}

template <typename T, typename Refuse>
void check_finite(const char* name, const T* points, int64_t n, const Refuse& refuse) {
  for (int64_t i = 0; i < 3 * n; ++i) {
    if (!std::isfinite(points[i])) {
      refuse(name, " must be finite, but coordinate ", i % 3, " of point ", i / 3, " is ", points[i], ".");
    }
  }
}

// Points of one batch, the queries for them, and what finds them.
template <typename T>
struct Batch {
  int64_t begin, end, from, to;  // points [begin, end), queries [from, to)
  std::optional<Grid<T>> grid;
  std::optional<Tree<T>> tree;
  std::atomic<bool> needs_tree{false};
};

}  // namespace knn

// Writes idx[m, nsample] and dist[m, nsample], m being the number of queries. The shapes have been checked.
//   n, new_n                             points of xyz and of new_xyz
//   refuse(words...)                     throws: its words make a sentence
//   outputs()                            {idx, dist}, allocated now that the values are known to be in order
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
  int64_t largest = 0;
  for (size_t b = 0; b < batches.size(); ++b) {
    Batch<T>& batch = batches[b];
    batch.begin = b ? q.offset[b - 1] : 0;
    batch.end = q.offset[b];
    batch.from = b ? query_offset[b - 1] : 0;
    batch.to = query_offset[b];
    largest = std::max(largest, batch.end - batch.begin);
  }
  // A cloud without points has no batch that could have been meant: it is answered with padding.
  if (n > 0 && q.nsample > largest) {
    refuse("nsample must not be larger than the largest batch, but nsample is ", q.nsample,
           " and the largest batch has ", largest, " points.");
  }
  const std::pair<int32_t*, T*> output = outputs();
  int32_t* const idx = output.first;
  T* const dist = output.second;

  const auto each_batch = [&](const auto& work) {
    const int64_t count = static_cast<int64_t>(batches.size());
    const int64_t piece = n <= kFew ? std::max(count, int64_t{1}) : std::max(count * kFew / n, int64_t{1});
    share_out(
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
  struct Kept {  // by a thread from one query to the next
    explicit Kept(int64_t k) : nearest(k), found(k) {}
    Nearest<T> nearest;
    Candidates<T> candidates;
    std::vector<Neighbour<T>> found;
    T guess = 0;
  };
  // Calls work(batch, place, row, kept, samples) for each query, neighbours one after the other where that is known: what one
  // has read is then in the cache for the next. The query stands at `place` of that order, and its answer in that row.
  constexpr int32_t kUnanswered = -2;
  const auto each_query = [&](const auto& work) {
    const int64_t m = query_offset.empty() ? 0 : query_offset.back();
    share_out(
        parallel_for, m, m <= kFew ? kFew : kPiece, [] { return std::optional<Kept>(); },
        [&](int64_t begin, int64_t end, auto& kept) {
          const auto first = std::upper_bound(query_offset.begin(), query_offset.end(), begin);
          size_t b = static_cast<size_t>(first - query_offset.begin());
          for (int64_t i = begin; i < end; ++i) {
            while (i >= batches[b].to) ++b;
            Batch<T>& batch = batches[b];
            const size_t count = static_cast<size_t>(samples(batch));
            if (!kept || kept->found.size() != count) kept.emplace(count);
            const int64_t place = i - batch.from;
            const bool is_ordered = is_self && count > 0;
            const int64_t row = is_ordered ? (batch.grid ? batch.grid->order() : batch.tree->order())[place] : i;
            work(batch, place, row, *kept, static_cast<int64_t>(count));
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
  each_query([&](Batch<T>& batch, int64_t place, int64_t row, Kept& kept, int64_t count) {
    T query[3];
    if (is_self && batch.grid) {
      batch.grid->get(place, query);  // which lies in the cache, beside its neighbours
    } else {
      std::copy(queries + 3 * row, queries + 3 * row + 3, query);
    }
    if (batch.tree) {
      batch.tree->search(query, kept.nearest);
      write(row, kept.nearest.sorted().data(), count);
    } else if (count == 0 || batch.grid->search(query, count, kSteps * (count + 16), kept.candidates, kept.guess,
                                                kept.found.data())) {
      write(row, kept.found.data(), count);
    } else {
      idx[row * q.nsample] = kUnanswered;
      is_unfinished = batch.needs_tree = true;
    }
  });
  if (!is_unfinished) return;
  each_batch([&](Batch<T>& batch) {
    if (batch.needs_tree) grow_tree(batch);
  });
  each_query([&](Batch<T>& batch, int64_t, int64_t row, Kept& kept, int64_t count) {
    if (idx[row * q.nsample] != kUnanswered) return;
    batch.tree->search(queries + 3 * row, kept.nearest);
    write(row, kept.nearest.sorted().data(), count);
  });
}

}  // namespace oplab
