// c17.one_library_many_runtimes: one library for every ONNX Runtime
// from 1.16 on, compiled with headers that are newer than most of them.
//
// Domain c17: RowMedian(x float [rows, columns]) -> y float [rows], the
// median of each row.
//
// The library takes the newest table that both its headers and the
// runtime have. It calls a function of the table only if that version
// has it:
// - from 1.17 on, rows are computed by `KernelContext_ParallelFor`,
//   which is new there;
// - in 1.16, which has no such function, one after the other.
// A runtime refuses an op whose member `version` is newer than itself,
// and one that is newer than the headers would have members that this
// library does not.
//
// A runtime older than 1.16 gets a status. Its message contains the
// version of the runtime, as the runtime gives it ("1.15.1"), and 1.16.
// RegisterCustomOps is called once for each SessionOptions, from
// several threads at once, and through a C interface. Sessions keep
// pointers to the domain and its operators until the process ends.
//
// Its author has run the two functions at the end in 1.31, and with
// headers of 1.16 in 1.16. Delete the line with #error to run them in
// the other versions.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

namespace {

using Work = void (*)(void* data, size_t row);

// Calls work(data, row) for each row.
void for_each_row(const Ort::KernelContext& context, size_t rows, Work work, void* data);

struct Rows {
  const float* x;
  float* y;
  size_t columns;
};

void median(void* data, size_t row) {
  const Rows& rows = *static_cast<Rows*>(data);
  const float* begin = rows.x + row * rows.columns;
  std::vector<float> values(begin, begin + rows.columns);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  rows.y[row] = *middle;
}

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    try {
      const Ort::KernelContext context{raw};
      const Ort::ConstValue x = context.GetInput(0);
      const std::vector<int64_t> shape = x.GetTensorTypeAndShapeInfo().GetShape();
      if (shape.size() != 2 || shape[1] == 0) {
        return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, "x must be [rows, columns].");
      }
      Ort::UnownedValue y = context.GetOutput(0, {shape[0]});
      Rows rows{x.GetTensorData<float>(), y.GetTensorMutableData<float>(),
                static_cast<size_t>(shape[1])};
      for_each_row(context, static_cast<size_t>(shape[0]), median, &rows);
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    }
  }
};

struct RowMedian : Ort::CustomOpBase<RowMedian, Kernel, true> {  // true: with a status
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo*,
                            void** made) const noexcept {
    *made = new (std::nothrow) Kernel;
    return *made ? nullptr : api.CreateStatus(ORT_FAIL, "no memory for a kernel");
  }
  const char* GetName() const { return "RowMedian"; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
};

}  // namespace

// ANSWER c17.one_library_many_runtimes: find out in which runtimes this fails, and fix it
#if 0  // what was given
// END
namespace {

void for_each_row(const Ort::KernelContext& context, size_t rows, Work work, void* data) {
#if ORT_API_VERSION >= 17  // ParallelFor is new in it
  if (rows > 0) context.ParallelFor(work, rows, 0, data);
#else
  for (size_t row = 0; row < rows; ++row) work(data, row);
#endif
}

OrtCustomOpDomain* make_domain(const OrtApi* table) {
  Ort::InitApi(table);
  static const RowMedian op;
  Ort::CustomOpDomain domain{"c17"};
  domain.Add(&op);
  return domain.release();
}

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  try {
    const std::string runtime = base->GetVersionString();
    if (runtime < "1.16") {
      const std::string sentence = "c17 needs ONNX Runtime 1.16, and this is " + runtime;
      return base->GetApi(1)->CreateStatus(ORT_FAIL, sentence.c_str());
    }
    static const OrtApi* const table = base->GetApi(16);  // every runtime that is left has it
    static OrtCustomOpDomain* const domain = make_domain(table);
    return table->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return base->GetApi(1)->CreateStatus(ORT_FAIL, error.what());
  }
}
// ANSWER c17.one_library_many_runtimes
#endif
namespace {

constexpr uint32_t kOldest = 16;
uint32_t api_version = 0;

void for_each_row(const Ort::KernelContext& context, size_t rows, Work work, void* data) {
  if (api_version >= 17) {
    if (rows > 0) context.ParallelFor(work, rows, 0, data);
  } else {
    for (size_t row = 0; row < rows; ++row) work(data, row);
  }
}

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  const OrtApi* oldest = base->GetApi(1);  // every runtime has it
  try {
    uint32_t runtime = ORT_API_VERSION;  // what cannot be read counts as new
    std::sscanf(base->GetVersionString(), "1.%u", &runtime);
    const uint32_t version = std::min<uint32_t>(runtime, ORT_API_VERSION);
    const OrtApi* api = version < kOldest ? nullptr : base->GetApi(version);
    if (!api) {
      const std::string sentence = "The operators of c17 need ONNX Runtime 1." +
                                   std::to_string(kOldest) + " or newer; this is " +
                                   base->GetVersionString() + ".";
      return oldest->CreateStatus(ORT_FAIL, sentence.c_str());
    }
    static const Ort::CustomOpDomain domain = [&] {  // once, whatever thread is the first
      Ort::InitApi(api);
      api_version = version;
      static RowMedian op;
      op.version = version;
      Ort::CustomOpDomain made{"c17"};
      made.Add(&op);
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return oldest->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return oldest->CreateStatus(ORT_FAIL, "an unknown exception in RegisterCustomOps");
  }
}
// END
