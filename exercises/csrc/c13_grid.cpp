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

// TODO c13.grid: the kernel GridKernel and the operator GridOp, on Ort::CustomOpBase
#error "c13.grid is not written yet"

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
