// The sum of x through scratch memory of `size` floats: by hand, and with oplab::Scratch.
#include "oplab_kernel.h"

#include <numeric>

namespace {

using oplab::Tensor;

// Fills the memory and works with it; refuses a negative x while the memory is in use.
float sum_through(float* memory, int64_t size, const Tensor<float>& x) {
  std::fill_n(memory, size, 0.0f);
  for (int64_t i = 0; i < x.NumberOfElement(); ++i) {
    if (x.Data()[i] < 0) oplab::refuse("x[", i, "] is negative.");
    memory[i % size] += x.Data()[i];
  }
  return std::accumulate(memory, memory + size, 0.0f);
}

struct Kernel {
  Kernel(const OrtApi*, const OrtKernelInfo* info) : size(oplab::int_attribute(info, "size")) {
    if (size < 1) oplab::refuse("size must be at least 1.");
  }
  const int64_t size;
};

struct ByHand : Kernel {
  using Kernel::Kernel;
  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, Tensor<float>& y) {
    const OrtApi& api = Ort::GetApi();
    const auto cpu = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    OrtAllocator* allocator = nullptr;
    Ort::ThrowOnError(api.KernelContext_GetAllocator(context, cpu, &allocator));
    void* memory = allocator->Alloc(allocator, size * sizeof(float));
    *y.Allocate({1}) = sum_through(static_cast<float*>(memory), size, x);
    allocator->Free(allocator, memory);
    api.ReleaseAllocator(allocator);
    return Ort::Status{nullptr};
  }
};

struct WithScratch : Kernel {
  using Kernel::Kernel;
  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, Tensor<float>& y) {
    oplab::Scratch<float> memory(context, size);
    *y.Allocate({1}) = sum_through(memory.data(), size, x);
    return Ort::Status{nullptr};
  }
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<ByHand>(made, "ByHand");
    oplab::add<WithScratch>(made, "WithScratch");
    return made;
  });
}
