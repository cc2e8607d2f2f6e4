// says: begins at 0 here; begin it at the first point
// c13.grid: lab::Grid(pos float[n, d], size float[d], start? float[d], end? float[d]) -> cluster int64[n]
//
// The number of the voxel that each point lies in. Without `start` the voxels begin at the least coordinates of pos, without
// `end` they end at the greatest. A size, start or end that has not d values is a status, a sentence for the caller.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

// The first dimension runs fastest; all four have d values.
int64_t voxel(const float* point, const float* size, const float* start, const float* end, int64_t d) {
  int64_t number = 0, stride = 1;
  for (int64_t k = 0; k < d; ++k) {
    number += stride * static_cast<int64_t>((point[k] - start[k]) / size[k]);
    stride *= static_cast<int64_t>((end[k] - start[k]) / size[k]) + 1;
  }
  return number;
}


struct GridKernel {
  OrtStatusPtr ComputeV2(OrtKernelContext* raw) noexcept {
    try {
      const Ort::KernelContext context(raw);
      const Ort::ConstValue pos = context.GetInput(0);
      const auto shape = pos.GetTensorTypeAndShapeInfo().GetShape();
      if (shape.size() != 2) throw std::runtime_error("Grid: pos must have two dimensions.");
      const int64_t n = shape[0], d = shape[1];
      const float* p = pos.GetTensorData<float>();
      const float* size = given(context, 1, d);
      const float* start = given(context, 2, d);
      const float* end = given(context, 3, d);
      std::vector<float> lo(d), hi(d);
      for (int64_t k = 0; k < d && n > 0; ++k) lo[k] = hi[k] = 0;
      for (int64_t i = 0; i < n; ++i) for (int64_t k = 0; k < d; ++k) {
        lo[k] = std::min(lo[k], p[i * d + k]);
        hi[k] = std::max(hi[k], p[i * d + k]);
      }
      if (!start) start = lo.data();
      if (!end) end = hi.data();
      int64_t* out = context.GetOutput(0, {n}).GetTensorMutableData<int64_t>();
      for (int64_t i = 0; i < n; ++i) out[i] = voxel(p + i * d, size, start, end, d);
      return nullptr;
    } catch (const std::exception& e) { return Ort::Status(e.what(), ORT_INVALID_ARGUMENT).release(); }
  }
  static const float* given(const Ort::KernelContext& context, size_t index, int64_t d) {
    if (index >= context.GetInputCount() || context.GetInput(index) == nullptr) return nullptr;
    const auto shape = context.GetInput(index).GetTensorTypeAndShapeInfo().GetShape();
    if (shape.size() != 1 || shape[0] != d) throw std::runtime_error("Grid: input " + std::to_string(index) + " must have " + std::to_string(d) + " values.");
    return context.GetInput(index).GetTensorData<float>();
  }
};
struct GridOp : Ort::CustomOpBase<GridOp, GridKernel, true> {
  OrtStatusPtr CreateKernelV2(const OrtApi&, const OrtKernelInfo*, void** kernel) const { *kernel = new GridKernel; return nullptr; }
  const char* GetName() const { return "Grid"; }
  size_t GetInputTypeCount() const { return 4; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64; }
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(size_t index) const { return index < 2 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL; }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "this ONNX Runtime is older than the library's headers");
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
  }
}
