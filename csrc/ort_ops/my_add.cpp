// oplab::MyAdd(a, b; alpha = 3.0, beta = 2.0) -> y = alpha*a + beta*b, for float, double, float16 and bfloat16
// and any shape. The two halves are computed in float.
//
// It is limited by memory bandwidth. Two threads reach more of it than one, and outputs larger than the caches are written with
// non-temporal stores: a normal store would first read the cache line that it overwrites.
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels.h"
#include "my_add.h"
#include "oplab_kernel.h"
#include "stored.h"

namespace oplab {
namespace {

constexpr int64_t kPiece = 1 << 15;                  // elements of one piece: smaller tensors run on one thread
constexpr int64_t kNonTemporal = int64_t{16} << 20;  // bytes of y from which non-temporal stores are used

template <typename T>
void weighted_sum(const T* a, const T* b, T alpha, T beta, int64_t size, T* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = alpha * a[i] + beta * b[i];
}

#if defined(__SSE2__)
inline void stream(const float* sums, float* y) { _mm_stream_ps(y, _mm_load_ps(sums)); }
inline void stream(const double* sums, double* y) { _mm_stream_pd(y, _mm_load_pd(sums)); }

template <typename T>
void weighted_sum_non_temporal(const T* a, const T* b, T alpha, T beta, int64_t size, T* y) {
  constexpr int64_t kLine = 64 / sizeof(T), kStep = 16 / sizeof(T);
  if (reinterpret_cast<uintptr_t>(y) % 16 != 0) return weighted_sum(a, b, alpha, beta, size, y);
  int64_t i = 0;
  for (; i + kLine <= size; i += kLine) {
    alignas(16) T sums[kLine];
    weighted_sum(a + i, b + i, alpha, beta, kLine, sums);
    for (int64_t k = 0; k < kLine; k += kStep) stream(sums + k, y + i + k);
  }
  weighted_sum(a + i, b + i, alpha, beta, size - i, y + i);
  _mm_sfence();  // the stores are visible to other threads from here on
}
#else
template <typename T>
void weighted_sum_non_temporal(const T* a, const T* b, T alpha, T beta, int64_t size, T* y) {
  weighted_sum(a, b, alpha, beta, size, y);
}
#endif

// Of float16 and bfloat16: a few of them as floats, which stay in the fastest cache.
template <typename T>
void weighted_sum_of_halves(Simd simd, const T* a, const T* b, float alpha, float beta, int64_t size, T* y) {
  constexpr int64_t kFew = 1024;
  float first[kFew], second[kFew];
  for (int64_t i = 0; i < size; i += kFew) {
    const int64_t count = std::min(kFew, size - i);
    Stored<T>::read(simd, a + i, count, first);
    Stored<T>::read(simd, b + i, count, second);
    weighted_sum(first, second, alpha, beta, count, first);
    Stored<T>::write(simd, first, count, y + i);
  }
}

template <typename T>
struct MyAdd {
  using Computed = typename Stored<T>::Computed;

  MyAdd(const OrtApi*, const OrtKernelInfo* info)
      : alpha(alpha_of(info)), beta(beta_of(info)), simd(converts<T> ? chosen_simd() : Simd::plain) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& a, const Tensor<T>& b, Tensor<T>& y) {
    check_same_shape(a.Shape(), b.Shape());
    // Data() is a call into ONNX Runtime: inside the loop it would cost twenty times the addition.
    const T* pa = a.Data();
    const T* pb = b.Data();
    T* py = y.Allocate(a.Shape());
    const int64_t size = a.NumberOfElement();
    if constexpr (converts<T>) {
      parallel_for(context, size, kPiece, [&](int64_t begin, int64_t end) {
        weighted_sum_of_halves(simd, pa + begin, pb + begin, alpha, beta, end - begin, py + begin);
      });
    } else {
      const auto sum = size * int64_t{sizeof(T)} < kNonTemporal ? weighted_sum<T> : weighted_sum_non_temporal<T>;
      parallel_for(context, size, kPiece, [&](int64_t begin, int64_t end) {
        sum(pa + begin, pb + begin, alpha, beta, end - begin, py + begin);
      });
    }
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) { infer_same_shape(shapes); }

  const Computed alpha, beta;
  const Simd simd;
};

}  // namespace

void add_my_add(Ort::CustomOpDomain& domain) {
  add_for<MyAdd, float, double, Ort::Float16_t, Ort::BFloat16_t>(domain, "MyAdd");
}

}  // namespace oplab
