// What one thread of the GPU computes. These functions use nothing of CUDA, so a CPU can run them as well: the tests do.
#pragma once

#include <cmath>
#include <cstdint>

#include "../common/knn_neighbour.h"
#include "element.h"

namespace oplab {
namespace gpu {

// y[i] = alpha*a[i] + beta*b[i]
template <typename T>
struct MyAddTask {
  const T *a, *b;
  Computed<T> alpha, beta;
  int64_t size;
  T* y;
};

template <typename T>
OPLAB_DEVICE void my_add_at(const MyAddTask<T>& task, int64_t i) {
  using E = Element<T>;
  task.y[i] = E::rounded(task.alpha * E::read(task.a[i]) + task.beta * E::read(task.b[i]));
}

// Of infinity and NaN the difference is NaN.
template <typename T>
OPLAB_DEVICE bool is_finite(T stored) {
  const Computed<T> number = Element<T>::read(stored);
  return number - number == 0;
}

// The neighbours of `rows` queries, as knn.h describes them. The tensors have been checked.
template <typename T>
struct KnnTask {
  int64_t nsample, rows, batches;
  const T* points;
  const int64_t* offset;
  const T* queries;
  const int64_t* query_offset;
  knn::Neighbour<Computed<T>>* found;  // nsample for each row: the one of rank s at found[s * rows + row]
  int32_t* idx;
  T* dist;
};

// The list of one row. Neighbouring threads have neighbouring rows, and the elements of one rank are next to each other in memory.
template <typename T>
struct Column {
  knn::Neighbour<T>* first;
  int64_t step;
  OPLAB_DEVICE knn::Neighbour<T>& operator[](int64_t i) { return first[i * step]; }
};

// Compares the query with every point of its batch. The order of two points does not depend on how they are searched, so the
// result is the CPU's.
template <typename T>
OPLAB_DEVICE void knn_row(const KnnTask<T>& task, int64_t row) {
  using E = Element<T>;
  using Number = Computed<T>;
  int64_t batch = 0;  // the first one that ends after the row
  for (int64_t left = task.batches; left > 0;) {
    const int64_t half = left / 2;
    const bool is_later = task.query_offset[batch + half] <= row;
    if (is_later) batch += half + 1;
    left = is_later ? left - half - 1 : half;
  }
  const int64_t begin = batch ? task.offset[batch - 1] : 0, end = task.offset[batch];
  const int64_t count = task.nsample < end - begin ? task.nsample : end - begin;
  Number at[3];
  for (int d = 0; d < 3; ++d) at[d] = E::read(task.queries[3 * row + d]);

  Column<Number> found{task.found + row, task.rows};
  knn::Neighbour<Number> worst{};
  for (int64_t i = begin; i < end; ++i) {
    const T* const point = task.points + 3 * i;
    const Number square = knn::squared(E::read(point[0]) - at[0], E::read(point[1]) - at[1], E::read(point[2]) - at[2]);
    const knn::Neighbour<Number> candidate{square, static_cast<int32_t>(i)};
    const int64_t so_far = i - begin;
    if (so_far >= count && !knn::nearer(candidate, worst)) continue;
    const int64_t kept = so_far < count ? so_far + 1 : count;
    knn::insert(candidate, kept - 1, found);
    worst = found[kept - 1];
  }
  for (int64_t s = 0; s < task.nsample; ++s) {
    task.idx[row * task.nsample + s] = s < count ? found[s].index : -1;
    task.dist[row * task.nsample + s] = E::rounded(s < count ? std::sqrt(found[s].square) : Number{0});
  }
}

}  // namespace gpu
}  // namespace oplab
