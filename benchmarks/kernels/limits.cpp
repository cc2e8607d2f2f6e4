// What this machine can do at most: bytes to and from memory, and multiply-adds with each set of instructions. Each set has
// a function that is compiled for it alone: flags for the whole file would let the compiler use more in all of them.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {

template <typename Work>
void on_threads(int threads, const Work& work) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back([&work, t] { work(t); });
  work(0);
  for (std::thread& other : others) other.join();
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// `count` sums that do not wait for each other: enough to hide the latency of a multiply-add, and few enough to leave
// registers for its two factors. A vector is as wide as a register of the set: GCC keeps a wider one in memory.
template <int bytes, int count, bool fused = true>
struct Sums {
  typedef float Vector __attribute__((vector_size(bytes)));
  static constexpr double flops = 2.0 * count * bytes / sizeof(float);  // of one step

  [[gnu::always_inline]] static float add(int64_t steps) {
    Vector sums[count];  // in registers, because each loop over them is unrolled
    // Starts that the compiler does not know: it would leave out the sum that starts at 1, which 0.999 x + 0.001 keeps.
#pragma GCC unroll 32
    for (int s = 0; s < count; ++s) sums[s] = Vector{} + static_cast<float>(steps + s);
    const Vector factor = Vector{} + 0.999f, more = Vector{} + 0.001f;
    for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 32
      for (int s = 0; s < count; ++s) {
#if defined(__aarch64__)
        // In C++ there would be a copy: fmla adds to its result. And the compiler would fuse for both sets.
        if (fused) asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(sums[s]) : "w"(factor), "w"(more));
        if (!fused) asm("fmul %0.4s, %0.4s, %1.4s\n fadd %0.4s, %0.4s, %2.4s" : "+w"(sums[s]) : "w"(factor), "w"(more));
#else
        sums[s] = sums[s] * factor + more;
#endif
      }
    }
    float sum = 0;
#pragma GCC unroll 32
    for (int s = 0; s < count; ++s) sum += sums[s][0];
    return sum;
  }
};

struct Set {
  const char* name;
  bool runs_here;
  float (*add)(int64_t steps);
  double flops;
};

#if defined(__x86_64__)
using Widest = Sums<64, 24>;
using Wide = Sums<32, 12>;
using Narrow = Sums<16, 14>;  // a multiplication, then an addition: twice the latency
[[gnu::target("avx512f")]] float add_avx512(int64_t steps) { return Widest::add(steps); }
[[gnu::target("avx2,fma")]] float add_avx2(int64_t steps) { return Wide::add(steps); }
float add_plain(int64_t steps) { return Narrow::add(steps); }

const Set* find(const char* name) {
  static const Set sets[] = {
      {"avx512", __builtin_cpu_supports("avx512f") != 0, add_avx512, Widest::flops},
      {"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), add_avx2, Wide::flops},
      {"plain", true, add_plain, Narrow::flops},
  };
#elif defined(__aarch64__)
using Fused = Sums<16, 24>;
using Narrow = Sums<16, 24, false>;
float add_neon(int64_t steps) { return Fused::add(steps); }
float add_plain(int64_t steps) { return Narrow::add(steps); }

const Set* find(const char* name) {
  static const Set sets[] = {{"neon", true, add_neon, Fused::flops}, {"plain", true, add_plain, Narrow::flops}};
#else
using Narrow = Sums<16, 12>;
float add_plain(int64_t steps) { return Narrow::add(steps); }

const Set* find(const char* name) {
  static const Set sets[] = {{"plain", true, add_plain, Narrow::flops}};
#endif
  for (const Set& set : sets) {
    if (std::strcmp(set.name, name) == 0 && set.runs_here) return &set;
  }
  return nullptr;
}

[[gnu::always_inline]] inline void triad_piece(float* y, const float* a, const float* b, float factor, int64_t begin,
                                               int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = a[i] + factor * b[i];
}
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void triad_avx2(float* y, const float* a, const float* b, float factor, int64_t begin,
                                            int64_t end) {
  triad_piece(y, a, b, factor, begin, end);
}
#endif

}  // namespace

// y = a + factor * b, the triad of the STREAM benchmark (McCalpin 1995): three arrays, one pass.
extern "C" void triad(float* y, const float* a, const float* b, float factor, int64_t n, int threads) {
  on_threads(threads, [&](int t) {
    const int64_t begin = n * t / threads, end = n * (t + 1) / threads;
#if defined(__x86_64__)
    if (find("avx2")) return triad_avx2(y, a, b, factor, begin, end);
#endif
    triad_piece(y, a, b, factor, begin, end);
  });
}

// Copies `bytes` bytes, in one piece for each thread.
extern "C" void copy(char* to, const char* from, int64_t bytes, int threads) {
  on_threads(threads, [&](int t) {
    const int64_t begin = bytes * t / threads, end = bytes * (t + 1) / threads;
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

// Multiply-adds with one set on all threads at once: operations of float32 per second, 0 where the set does not run here.
extern "C" double peak(const char* name, double operations, int threads) {
  const Set* set = find(name);
  if (!set) return 0;
  const auto steps = static_cast<int64_t>(operations / threads / set->flops) + 1;
  std::vector<double> rates(threads);
  on_threads(threads, [&](int t) {
    const double start = now();
    volatile float kept = set->add(steps);
    (void)kept;
    rates[t] = static_cast<double>(steps) * set->flops / (now() - start);
  });
  double sum = 0;
  for (double rate : rates) sum += rate;
  return sum;
}
