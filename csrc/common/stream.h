// Stores that do not read the cache line that they overwrite (non-temporal), for results that are larger than the caches. Where a
// processor has none they are ordinary stores.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace oplab {

// Copies `count` elements of `from` to `to`. Call streamed() when a thread has made its last copy.
template <typename T>
void stream(const T* from, int64_t count, T* to) {
  const char* source = reinterpret_cast<const char*>(from);
  char* target = reinterpret_cast<char*>(to);
  int64_t bytes = count * static_cast<int64_t>(sizeof(T));
#if defined(__SSE2__)
  const int64_t before = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(target) & 15);  // to the next multiple of 16
  if (bytes >= before + 64) {
    std::memcpy(target, source, static_cast<size_t>(before));
    source += before, target += before, bytes -= before;
    for (; bytes >= 16; source += 16, target += 16, bytes -= 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(target), _mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
    }
  }
#endif
  std::memcpy(target, source, static_cast<size_t>(bytes));
}

// Makes what this thread has streamed visible to other threads.
inline void streamed() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace oplab
