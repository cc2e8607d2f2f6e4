// Registers the domain `oplab` with all kernels for the CPU and those for CUDA. ONNX Runtime takes a domain from one library, so
// this one replaces oplab_ort_ops: a session without CUDAExecutionProvider gets the CPU's kernels from it.
#include "../ort_ops/kernels.h"
#include "../ort_ops/oplab_kernel.h"
#include "cuda_kernels.h"

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain domain{"oplab"};
    oplab::add_all(domain);
    oplab::add_my_add_cuda(domain);
    oplab::add_knn_query_cuda(domain);
    return domain;
  });
}
