// oplab::DynamicResize(x, scales) -> y: x, enlarged or reduced bicubically by factors that are inputs. For float, double, float16,
// bfloat16, and for uint8 and int8: the weights of a pixel add up to 1, so y has x's scale and zero point.
#include "../common/resize.h"
#include "kernels.h"
#include "oplab_kernel.h"
#include "stored.h"

namespace oplab {
namespace {

// Pixels of another type than float and double: see resize::AsTheyAre.
template <typename T>
struct Converted {
  using Pixel = T;
  static constexpr bool copies = true;
  const float* read(const T* from, int64_t count, float* numbers) const {
    Stored<T>::read(simd, from, count, numbers);
    return numbers;
  }
  float* place(T*, float* numbers) const { return numbers; }
  void write(const float* numbers, int64_t count, T* to) const { Stored<T>::write(simd, numbers, count, to); }

  const Simd simd;
};

template <typename T>
struct DynamicResize {
  DynamicResize(const OrtApi*, const OrtKernelInfo*) : simd_(converts<T> ? chosen_simd() : Simd::plain) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<T>& x, const Tensor<float>& scales, Tensor<T>& y) {
    const resize::Shape& shape = x.Shape();
    resize::check_shapes(shape, scales.Shape(), kRefuse);
    const Images images = resize::plan(shape, scales.Data(), kRefuse);
    T* const to = y.Allocate({shape[0], shape[1], images.new_height, images.new_width});
    if constexpr (converts<T>) {
      resize_pixels<float>(images, Converted<T>{simd_}, x.Data(), to, parallel_for_on(context));
    } else {
      resize_images(images, x.Data(), to, parallel_for_on(context));
    }
    return Ort::Status{nullptr};
  }

  // y's height and width depend on the values of scales: only y's rank, N and C are known.
  static void InferShapes(Shapes& shapes) {
    const Shapes::Dims x = shapes.dims(0);
    if (x.size() == 4) shapes.set(0, shapes.type(0), {x[0], x[1], {}, {}});
  }

 private:
  const Simd simd_;
};

}  // namespace

void add_dynamic_resize(Ort::CustomOpDomain& domain) {
  add_for<DynamicResize, float, double, Ort::Float16_t, Ort::BFloat16_t, uint8_t, int8_t>(domain, "DynamicResize");
}

}  // namespace oplab
