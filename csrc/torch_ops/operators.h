// The C++ functions behind torch.ops.oplab. Each has a file of its own.
#pragma once

#include <torch/csrc/stable/tensor.h>

namespace oplab {

// my_add.cpp
torch::stable::Tensor my_add(const torch::stable::Tensor& a, const torch::stable::Tensor& b, double alpha, double beta);

}  // namespace oplab
