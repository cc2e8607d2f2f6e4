// Work for several threads, on top of either runtime's parallel_for(size, piece, work).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

namespace oplab {

// Calls work(begin, end, own) for the pieces of [0, size). Threads take the pieces one by one, because some take far longer
// than others. make() makes what one thread needs for all of its pieces. Both may throw: the exception comes out at the end.
template <typename ParallelFor, typename Make, typename Work>
void share_out(const ParallelFor& parallel_for, int64_t size, int64_t piece, const Make& make, const Work& work) {
  const int64_t pieces = size / piece + (size % piece != 0);
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex holds_failure;
  parallel_for(pieces, int64_t{1}, [&](int64_t, int64_t) {
    if (next >= pieces) return;
    try {
      auto own = make();
      for (int64_t p = next++; p < pieces; p = next++) work(p * piece, std::min((p + 1) * piece, size), own);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(holds_failure);
      failure = std::current_exception();
      next = pieces;
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace oplab
