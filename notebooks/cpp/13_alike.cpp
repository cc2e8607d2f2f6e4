// Chapter 13: y[r] = exp(-(x[r] - x[r-1])²) and its sum, on several threads, in three ways.
#include "13_kernel.h"

namespace {

struct Rows {
  const float* x;
  float* y;
  double *total, *sums;
  int64_t height, width;
};

struct FirstTry {
  static void one_row(void* data, size_t row) {
    Rows& rows = *static_cast<Rows*>(data);
    const size_t above = std::min<size_t>(row - 1, rows.height - 1);
    for (int64_t i = 0; i < rows.width; ++i) {
      const float gap = rows.x[row * rows.width + i] - rows.x[above * rows.width + i];
      rows.y[row * rows.width + i] = std::exp(-gap * gap);
      *rows.total += rows.y[row * rows.width + i];
    }
  }
};

struct StaticGap {
  static void one_row(void* data, size_t index) {
    const Rows& rows = *static_cast<Rows*>(data);
    const int64_t row = static_cast<int64_t>(index);
    const int64_t above = std::max<int64_t>(row - 1, 0);
    double sum = 0;
    for (int64_t i = 0; i < rows.width; ++i) {
      static float gap;
      gap = rows.x[row * rows.width + i] - rows.x[above * rows.width + i];
      rows.y[row * rows.width + i] = std::exp(-gap * gap);
      sum += rows.y[row * rows.width + i];
    }
    rows.sums[row] = sum;
  }
};

struct Fixed {
  static void one_row(void* data, size_t index) {
    const Rows& rows = *static_cast<Rows*>(data);
    const int64_t row = static_cast<int64_t>(index);
    const int64_t above = std::max<int64_t>(row - 1, 0);
    double sum = 0;
    for (int64_t i = 0; i < rows.width; ++i) {
      const float gap = rows.x[row * rows.width + i] - rows.x[above * rows.width + i];
      rows.y[row * rows.width + i] = std::exp(-gap * gap);
      sum += rows.y[row * rows.width + i];
    }
    rows.sums[row] = sum;
  }
};

template <typename Way>
struct AlikeKernel {
  static void compute(const Ort::KernelContext& context) {
    const Ort::ConstValue x = context.GetInput(0);
    const std::vector<int64_t> shape = x.GetTensorTypeAndShapeInfo().GetShape();
    if (shape.size() != 2) {
      throw Ort::Exception("Alike: x must have two dimensions.", ORT_INVALID_ARGUMENT);
    }
    float* y = context.GetOutput(0, shape).GetTensorMutableData<float>();
    double* total = context.GetOutput(1, {1}).GetTensorMutableData<double>();
    std::vector<double> sums(shape[0]);
    Rows rows{x.GetTensorData<float>(), y, total, sums.data(), shape[0], shape[1]};
    *total = 0;
    context.ParallelFor(Way::one_row, shape[0], 0, &rows);
    for (double sum : sums) *total += sum;
  }
};

template <typename Op, typename Way>
struct AlikeOp : Base<Op, AlikeKernel<Way>> {
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 2; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t index) const { return index == 1 ? DOUBLE : FLOAT; }
};

struct FirstTryOp : AlikeOp<FirstTryOp, FirstTry> {
  const char* GetName() const { return "FirstTry"; }
};
struct StaticGapOp : AlikeOp<StaticGapOp, StaticGap> {
  const char* GetName() const { return "StaticGap"; }
};
struct FixedOp : AlikeOp<FixedOp, Fixed> {
  const char* GetName() const { return "Fixed"; }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return add_to_lesson<FirstTryOp, StaticGapOp, FixedOp>(options, base);
}
