// c17.version_guard: a library that has the operators of two years, and
// refuses a runtime that is older than its headers. Its author has run
// one model with a step, in one session, and has seen one older runtime
// refuse it once. Three faults are graded. Delete the line with #error
// to run it.
//
// Domain c17, where x and y are float tensors of one shape:
// - Quantize(x; step = 0.25) -> y = step * trunc(x / step), from
//   version 1 on. It has been in models since last year, and keeps its
//   meaning in every version.
// - Quantize2(x; step = 0.25) -> y = step * nearbyint(x / step), new in
//   version 2: a model that imports version 1 has no such operator.
//
// A runtime without the table of ORT_API_VERSION gets a status. Its
// message contains the version of the runtime, as the runtime gives it,
// and that of the headers as 1.<ORT_API_VERSION>.
//
// RegisterCustomOps is called once for each SessionOptions, from
// several threads at once, and through a C interface. All calls share
// one domain with one object of each operator; sessions keep pointers
// to them until the process ends. Each status that a function of the
// table has created is released once: by the library, or by ONNX
// Runtime, to which it was returned.
#include <onnxruntime_cxx_api.h>

#include <cmath>
#include <exception>
#include <new>
#include <string>

// TODO c17.version_guard: find the three faults of this library, and fix them
#error "c17.version_guard is not written yet"

namespace {

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    try {
      const Ort::KernelContext context{raw};
      const Ort::ConstValue x = context.GetInput(0);
      const auto info = x.GetTensorTypeAndShapeInfo();
      const float* in = x.GetTensorData<float>();
      float* out = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
      for (size_t i = 0; i < info.GetElementCount(); ++i) {
        out[i] = step * (nearest ? std::nearbyint(in[i] / step) : std::trunc(in[i] / step));
      }
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    }
  }

  float step;
  bool nearest;
};

struct Quantize : Ort::CustomOpBase<Quantize, Kernel, true> {  // true: with a status
  // `first` is the first version of the domain that has the operator.
  Quantize(const char* name, int first, bool nearest) : name_(name), nearest_(nearest) {
    start_ver_ = first;
  }

  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo* info,
                            void** made) const noexcept {
    float step = 0.25f;
    if (api.KernelInfoGetAttribute_float(info, "step", &step)) step = 0.25f;
    *made = new (std::nothrow) Kernel{step, nearest_};
    return *made ? nullptr : api.CreateStatus(ORT_FAIL, "no memory for a kernel");
  }
  const char* GetName() const { return name_; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }

 private:
  const char* name_;
  bool nearest_;
};

const Quantize truncates("Quantize", 1, false), rounds("Quantize2", 2, true);
OrtCustomOpDomain* made = nullptr;

OrtStatus* make_domain(const OrtApi& table) noexcept {
  Ort::InitApi(&table);
  OrtCustomOpDomain* domain = nullptr;
  if (OrtStatus* failed = table.CreateCustomOpDomain("c17", &domain)) return failed;
  if (OrtStatus* failed = table.CustomOpDomain_Add(domain, &truncates)) return failed;
  if (OrtStatus* failed = table.CustomOpDomain_Add(domain, &rounds)) return failed;
  made = domain;
  return nullptr;
}

OrtStatus* refusal(const OrtApiBase& base) {
  const std::string sentence = "c17 needs ONNX Runtime 1." + std::to_string(ORT_API_VERSION) +
                               ", and this is " + base.GetVersionString();
  static OrtStatus* const status = base.GetApi(1)->CreateStatus(ORT_FAIL, sentence.c_str());
  return status;
}

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  try {
    const OrtApi* table = base->GetApi(ORT_API_VERSION);
    if (table == nullptr) return refusal(*base);
    if (made == nullptr) {
      if (OrtStatus* failed = make_domain(*table)) return failed;
    }
    return table->AddCustomOpDomain(options, made);
  } catch (const std::exception& error) {
    return base->GetApi(1)->CreateStatus(ORT_FAIL, error.what());
  }
}
