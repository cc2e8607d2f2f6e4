// Kernels that fail as their attribute `how` selects: 1 to 3 throw, 4 returns a status.
#include <onnxruntime_lite_custom_op.h>

#include <exception>
#include <memory>
#include <stdexcept>

using Ort::Custom::Tensor;

static OrtStatus* misbehave(int64_t how) {
  if (how == 1) throw std::runtime_error("MyAdd: wrong shape");
  if (how == 2) throw Ort::Exception("MyAdd: wrong shape", ORT_INVALID_ARGUMENT);
  if (how == 3) throw 42;
  return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, "MyAdd: wrong shape");
}

static int64_t read(const OrtKernelInfo* info) {
  return Ort::ConstKernelInfo{info}.GetAttribute<int64_t>("how");
}

struct Plain {
  void Compute(OrtKernelContext*) { Ort::ThrowOnError(misbehave(how)); }
  int64_t how;
};

struct WithStatus {
  OrtStatus* ComputeV2(OrtKernelContext*) { return misbehave(how); }
  int64_t how;
};

struct Guarded {
  OrtStatus* ComputeV2(OrtKernelContext*) noexcept { return misbehave(how); }
  int64_t how;
};

struct Lite {
  Lite(const OrtApi*, const OrtKernelInfo* info) : how(read(info)) {}
  Ort::Status Compute(const Tensor<float>&, Tensor<float>&) {
    return Ort::Status{misbehave(how)};
  }
  int64_t how;
};

// One float input and one float output, for each of the ops below.
template <typename Op, typename Kernel, bool with_status>
struct OneInput : Ort::CustomOpBase<Op, Kernel, with_status> {
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
};

struct PlainOp : OneInput<PlainOp, Plain, false> {
  void* CreateKernel(const OrtApi&, const OrtKernelInfo* info) const {
    return new Plain{read(info)};
  }
  const char* GetName() const { return "Plain"; }
};

template <typename Kernel>
struct StatusOp : OneInput<StatusOp<Kernel>, Kernel, true> {
  explicit StatusOp(const char* name) : name_(name) {}
  OrtStatus* CreateKernelV2(const OrtApi&, const OrtKernelInfo* info, void** made) const {
    *made = new Kernel{read(info)};
    return nullptr;
  }
  const char* GetName() const { return name_; }
  const char* name_;
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);  // null if this runtime is older
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "ONNX Runtime is too old");
  Ort::InitApi(api);
  try {
    static const PlainOp plain;
    static const StatusOp<WithStatus> status{"WithStatus"};
    static const StatusOp<Guarded> guarded{"Guarded"};
    static const std::unique_ptr<OrtCustomOp> lite{
        Ort::Custom::CreateLiteCustomOp<Lite>("Lite", "CPUExecutionProvider")};
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"lesson"};
      made.Add(&plain);
      made.Add(&status);
      made.Add(&guarded);
      made.Add(lite.get());
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "an unknown C++ exception in RegisterCustomOps");
  }
}
