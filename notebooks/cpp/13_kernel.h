// Chapter 13: what its kernels on the plain API share, all of it explained in chapter 12.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <stdexcept>
#include <tuple>
#include <vector>

using Type = ONNXTensorElementDataType;
constexpr Type FLOAT = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
constexpr Type DOUBLE = ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
constexpr Type INT32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
constexpr Type INT64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;

// A kernel with a function `compute` that may throw; an exception becomes a status.
template <typename Kernel>
struct Guarded : Kernel {
  OrtStatusPtr ComputeV2(OrtKernelContext* context) noexcept {
    const OrtApi& api = Ort::GetApi();
    try {
      Kernel::compute(Ort::KernelContext(context));
      return nullptr;
    } catch (const Ort::Exception& error) {
      return api.CreateStatus(error.GetOrtErrorCode(), error.what());
    } catch (const std::exception& error) {
      return api.CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    } catch (...) {
      return api.CreateStatus(ORT_RUNTIME_EXCEPTION, "an unknown C++ exception in a kernel");
    }
  }
};

template <typename Op, typename Kernel>
struct Base : Ort::CustomOpBase<Op, Guarded<Kernel>, true> {
  OrtStatusPtr CreateKernelV2(const OrtApi& api, const OrtKernelInfo*,
                              void** kernel) const noexcept {
    *kernel = new (std::nothrow) Guarded<Kernel>;
    return *kernel ? nullptr : api.CreateStatus(ORT_FAIL, "no memory for a kernel");
  }
};

// All of RegisterCustomOps: one object of each operator, in the domain `lesson`.
template <typename... Ops>
OrtStatus* add_to_lesson(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "this ONNX Runtime is too old");
  Ort::InitApi(api);
  try {
    static const std::tuple<Ops...> ops{};
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"lesson"};
      std::apply([&](const auto&... op) { (made.Add(&op), ...); }, ops);
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "an unknown C++ exception in RegisterCustomOps");
  }
}
