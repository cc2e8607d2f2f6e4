// Loops compiled for more than one processor, of which the newest that fits is chosen when they run.
#pragma once

// What such loops call has to be inlined: a function of its own would be compiled for the oldest processor.
#if defined(__GNUC__)
#define OPLAB_INLINE [[gnu::always_inline]] inline
#define OPLAB_INLINE_LAMBDA __attribute__((always_inline))
#else
#define OPLAB_INLINE inline
#define OPLAB_INLINE_LAMBDA
#endif

namespace oplab {

#if defined(__x86_64__) && defined(__GNUC__)
template <typename Work>
[[gnu::target("avx2")]] void with_avx2(const Work& work) {
  work();
}
#endif

// Calls work(), a lambda that is marked with OPLAB_INLINE_LAMBDA. AVX2 without its multiply-add: the results are the same.
template <typename Work>
void with_widest_vectors(const Work& work) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx2")) return with_avx2(work);
#endif
  work();
}

}  // namespace oplab
