// c13.grid: lab::Grid(pos float[n, d], size float[d],
//                     start? float[d], end? float[d])
//           -> cluster int64[n]
//
// The number of the voxel that each point is in. Without `start` the
// voxels begin at the smallest coordinates of pos, without `end` they
// end at the largest. If there are no points, the output is empty.
//
// Refuse the following, also without points, with a status whose
// message is a sentence for the caller:
// - a pos that does not have two dimensions, and a size, start or end
//   whose shape is not [d];
// - a value of pos, size, start or end that is NaN or infinite. Check
//   this before voxel(), which accepts a size that is infinite;
// - a size that is not greater than 0;
// - more voxels than int64 can count: then voxel() throws.
// These are the caller's mistakes, so ORT_INVALID_ARGUMENT is the right
// code; the grader does not check it. An exception must not leave
// ComputeV2. Do not refuse a point outside start and end, or an end
// below start: the number is the result of voxel().
//
// ONNX Runtime creates many kernels of one operator, and calls each of
// them from several threads at once: attributes belong to the kernel,
// the values that a run computes belong to the run. Free what you
// allocate, and only read the inputs.
// Not allowed (contains the answer): csrc/common/voxels.h,
// csrc/ort_ops/grid.cpp.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// The caller's mistake: an exception with that code.
[[noreturn]] void refuse(const std::string& why) {
  throw Ort::Exception("Grid: " + why, ORT_INVALID_ARGUMENT);
}

// x without its fractional part. NaN, infinity and 1e30 do not fit into
// int64; converting them is undefined behaviour.
int64_t whole(float x) {
  if (!(x > -9.2e18f && x < 9.2e18f)) refuse("there are more voxels than int64 can count.");
  return static_cast<int64_t>(x);
}

// The first dimension varies fastest; all four arrays have d values.
// Throws where int64 cannot hold the number.
int64_t voxel(const float* point, const float* size, const float* start, const float* end,
              int64_t d) {
  int64_t number = 0, stride = 1;
  for (int64_t k = 0; k < d; ++k) {
    int64_t step = whole((point[k] - start[k]) / size[k]);
    const int64_t cells = whole((end[k] - start[k]) / size[k]) + 1;
    if (__builtin_mul_overflow(stride, step, &step) ||
        __builtin_add_overflow(number, step, &number) ||
        __builtin_mul_overflow(stride, cells, &stride)) {
      refuse("there are more voxels than int64 can count.");
    }
  }
  return number;
}

// ANSWER c13.grid: the kernel GridKernel and the operator GridOp, on Ort::CustomOpBase
struct GridKernel {
  OrtStatusPtr ComputeV2(OrtKernelContext* context) noexcept {
    try {
      compute(Ort::KernelContext(context));
      return nullptr;
    } catch (const Ort::Exception& error) {
      return Ort::Status(error.what(), error.GetOrtErrorCode()).release();
    } catch (const std::exception& error) {
      return Ort::Status(error.what(), ORT_RUNTIME_EXCEPTION).release();
    } catch (...) {
      return Ort::Status("Grid: an unknown C++ exception", ORT_RUNTIME_EXCEPTION).release();
    }
  }

 private:
  static void compute(Ort::KernelContext context) {
    const Ort::ConstValue pos = context.GetInput(0);
    const std::vector<int64_t> shape = pos.GetTensorTypeAndShapeInfo().GetShape();
    if (shape.size() != 2) refuse("pos must have two dimensions.");
    const int64_t n = shape[0], d = shape[1];
    const float* points = pos.GetTensorData<float>();
    const float* size = along(context, "size", 1, d);
    const float* start = along(context, "start", 2, d);
    const float* end = along(context, "end", 3, d);
    check_finite("pos", points, n * d);
    for (int64_t k = 0; k < d; ++k) {
      if (!(size[k] > 0)) {
        refuse("size must be above 0, but size[" + std::to_string(k) + "] is not.");
      }
    }

    std::vector<float> least(d), greatest(d);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t k = 0; k < d; ++k) {
        const float at = points[i * d + k];
        least[k] = i == 0 ? at : std::min(least[k], at);
        greatest[k] = i == 0 ? at : std::max(greatest[k], at);
      }
    }
    if (start == nullptr) start = least.data();
    if (end == nullptr) end = greatest.data();
    int64_t* cluster = context.GetOutput(0, {n}).GetTensorMutableData<int64_t>();
    for (int64_t i = 0; i < n; ++i) cluster[i] = voxel(points + i * d, size, start, end, d);
  }

  // The d values of an input; null where it is left out, at the end (fewer inputs) or with the
  // name "" (a null value).
  static const float* along(const Ort::KernelContext& context, const char* name, size_t index,
                            int64_t d) {
    if (index >= context.GetInputCount() || context.GetInput(index) == nullptr) return nullptr;
    const Ort::ConstValue input = context.GetInput(index);
    if (input.GetTensorTypeAndShapeInfo().GetShape() != std::vector<int64_t>{d}) {
      refuse(std::string(name) + " must have one value for each coordinate of pos.");
    }
    check_finite(name, input.GetTensorData<float>(), d);
    return input.GetTensorData<float>();
  }

  static void check_finite(const std::string& name, const float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if (!std::isfinite(values[i])) {
        refuse(name + " must be finite, but its value " + std::to_string(i) + " is not.");
      }
    }
  }
};

struct GridOp : Ort::CustomOpBase<GridOp, GridKernel, true> {
  const char* GetName() const { return "Grid"; }
  OrtStatusPtr CreateKernelV2(const OrtApi& api, const OrtKernelInfo*,
                              void** kernel) const noexcept {
    *kernel = new (std::nothrow) GridKernel;
    return *kernel ? nullptr : api.CreateStatus(ORT_FAIL, "Grid: no memory for a kernel");
  }
  size_t GetInputTypeCount() const { return 4; }
  ONNXTensorElementDataType GetInputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(size_t index) const {
    return index < 2 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
  }
};
// END

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) {
    const char* why = "this ONNX Runtime is older than the library's headers";
    return base->GetApi(1)->CreateStatus(ORT_FAIL, why);
  }
  Ort::InitApi(api);
  try {
    static const GridOp op;  // operator and domain must outlive every session
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"lab"};
      made.Add(&op);
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "an unknown C++ exception in RegisterCustomOps");
  }
}
