// One function per operator with a kernel for the GPU, which adds the kernels, one for each element type, to the domain.
#pragma once

#include <onnxruntime_cxx_api.h>

namespace oplab {

void add_my_add_cuda(Ort::CustomOpDomain& domain);     // my_add.cpp
void add_knn_query_cuda(Ort::CustomOpDomain& domain);  // knn_query.cpp

}  // namespace oplab
