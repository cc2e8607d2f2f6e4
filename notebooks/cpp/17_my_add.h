// Chapter 17: MyAdd(a, b) = alpha * a + beta * b, the operator of the chapter's libraries.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <new>
#include <vector>

namespace {

// The version of the runtime's table. An entry point that accepts an older one sets it.
uint32_t api_version = ORT_API_VERSION;

constexpr size_t kPiece = 4096;

struct Work {
  const float *a, *b;
  float* y;
  size_t size;
  float alpha, beta;
};

void add(void* data, size_t piece) {
  const Work& work = *static_cast<Work*>(data);
  const size_t end = std::min(work.size, (piece + 1) * kPiece);
  for (size_t i = piece * kPiece; i < end; ++i) {
    work.y[i] = work.alpha * work.a[i] + work.beta * work.b[i];
  }
}

struct Kernel {
  float alpha, beta;

  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    try {
      const Ort::KernelContext context{raw};
      const Ort::ConstValue a = context.GetInput(0), b = context.GetInput(1);
      const std::vector<int64_t> shape = a.GetTensorTypeAndShapeInfo().GetShape();
      if (shape != b.GetTensorTypeAndShapeInfo().GetShape()) {
        return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, "MyAdd: the shapes differ.");
      }
      Work work{a.GetTensorData<float>(), b.GetTensorData<float>(),
                context.GetOutput(0, shape).GetTensorMutableData<float>(),
                a.GetTensorTypeAndShapeInfo().GetElementCount(), alpha, beta};
      const size_t pieces = (work.size + kPiece - 1) / kPiece;
      if (api_version >= 17) {
        if (pieces) context.ParallelFor(add, pieces, 0, &work);  // new in 1.17
      } else {
        for (size_t piece = 0; piece < pieces; ++piece) add(&work, piece);
      }
      return nullptr;
    } catch (const Ort::Exception& error) {
      return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    } catch (...) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, "MyAdd: an unknown exception");
    }
  }
};

struct Sum : Ort::CustomOpBase<Sum, Kernel, true> {
  Sum(const char* name, float alpha, float beta, int first = 1)
      : name_(name), alpha_(alpha), beta_(beta) {
    start_ver_ = first;
    version = api_version;  // a member of OrtCustomOp; CustomOpBase sets it to ORT_API_VERSION
  }
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo*,
                            void** made) const noexcept {
    *made = new (std::nothrow) Kernel{alpha_, beta_};
    return *made ? nullptr : api.CreateStatus(ORT_FAIL, "no memory for a kernel");
  }
  const char* GetName() const { return name_; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  }

 private:
  const char* name_;
  float alpha_, beta_;
};

// The part of an entry point that needs no version: a domain with its operators, which must
// outlive every session.
OrtStatus* add_domain(OrtSessionOptions* options, const char* name,
                      std::initializer_list<const Sum*> ops) noexcept {
  try {
    static const Ort::CustomOpDomain domain = [&] {
      Ort::CustomOpDomain made{name};
      for (const Sum* op : ops) made.Add(op);
      return made;
    }();
    return Ort::GetApi().AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return Ort::GetApi().CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return Ort::GetApi().CreateStatus(ORT_FAIL, "an unknown exception in RegisterCustomOps");
  }
}

}  // namespace
