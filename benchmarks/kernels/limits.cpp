// What this machine can do at most: bytes to and from memory, and multiply-adds. Compiled for the processor that it runs on.
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {

typedef float Vector __attribute__((vector_size(64)));

template <typename Work>
void on_threads(int threads, const Work& work) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back([&work, t] { work(t); });
  work(0);
  for (std::thread& other : others) other.join();
}

// 16 sums that do not wait for each other hide the latency of a multiply-add.
float multiply_add(int64_t steps) {
  constexpr int kSums = 16;
  Vector sums[kSums];
  for (int s = 0; s < kSums; ++s) sums[s] = Vector{} + static_cast<float>(s);
  Vector factor = Vector{} + 0.999f, more = Vector{} + 0.001f;
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
    for (int s = 0; s < kSums; ++s) sums[s] = sums[s] * factor + more;
  }
  float sum = 0;
  for (const Vector& each : sums) sum += each[0];
  return sum;
}

}  // namespace

// y = a + factor * b, the triad of the STREAM benchmark (McCalpin 1995): three arrays, one pass.
extern "C" void triad(float* y, const float* a, const float* b, float factor, int64_t n, int threads) {
  on_threads(threads, [&](int t) {
    const int64_t begin = n * t / threads, end = n * (t + 1) / threads;
    for (int64_t i = begin; i < end; ++i) y[i] = a[i] + factor * b[i];
  });
}

// Returns how many floating-point operations were done.
extern "C" double peak(int64_t steps, int threads) {
  volatile float kept = 0;
  on_threads(threads, [&](int) { kept = multiply_add(steps); });
  return 2.0 * 16 * 16 * static_cast<double>(steps) * threads;
}
