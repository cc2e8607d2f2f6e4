// A parallel loop with dynamic scheduling, on top of either runtime's parallel_for(size, piece, work).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

namespace oplab {

// Calls work(begin, end, state) for the pieces of [0, size). Threads take one piece after the other, because some pieces take
// much longer than others. make_state() creates what one thread keeps for all of its pieces. Both may throw: the exception is
// rethrown to the caller when all threads have stopped.
template <typename ParallelFor, typename MakeState, typename Work>
void dynamic_parallel_for(const ParallelFor& parallel_for, int64_t size, int64_t piece, const MakeState& make_state,
                          const Work& work) {
  const int64_t pieces = size / piece + (size % piece != 0);
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  parallel_for(pieces, int64_t{1}, [&](int64_t, int64_t) {
    if (next >= pieces) return;
    try {
      auto state = make_state();
      for (int64_t p = next++; p < pieces; p = next++) work(p * piece, std::min((p + 1) * piece, size), state);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_mutex);
      failure = std::current_exception();
      next = pieces;
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace oplab
