// 12_naive.cpp without its arithmetic: each step appends a line to the file $OPLAB_TRACE.
#include <onnxruntime_cxx_api.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <vector>

static void say(const char* what) {
  std::FILE* file = std::fopen(std::getenv("OPLAB_TRACE"), "a");
  std::fprintf(file, "%s\n", what);
  std::fclose(file);
}

struct Kernel {
  Kernel() { say("kernel +"); }
  ~Kernel() { say("kernel -"); }
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    say("ComputeV2");
    try {
      Ort::KernelContext context{raw};
      *context.GetOutput(0, std::vector<int64_t>{}).GetTensorMutableData<float>() = 0;
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    }
  }
};

struct MyAdd : Ort::CustomOpBase<MyAdd, Kernel, true> {
  MyAdd() { say("op +"); }
  ~MyAdd() { say("op -"); }
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo*,
                            void** made) const noexcept {
    say("CreateKernelV2");
    *made = new (std::nothrow) Kernel;
    return *made ? nullptr : api.CreateStatus(ORT_FAIL, "no memory for a kernel");
  }
  const char* GetName() const { return say("GetName"), "MyAdd"; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const {
    say("GetInputType");
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  say("RegisterCustomOps");
  const OrtApi* api = base->GetApi(ORT_API_VERSION);  // null if this runtime is older
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "ONNX Runtime is too old");
  Ort::InitApi(api);
  try {
    static const MyAdd op;
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"lesson"};
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
