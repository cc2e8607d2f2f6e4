// The C++ functions behind torch.ops.oplab. Each has a file of its own.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <optional>

namespace oplab {

// my_add.cpp
torch::stable::Tensor my_add(const torch::stable::Tensor& a, const torch::stable::Tensor& b, double alpha, double beta);

// grid.cpp
torch::stable::Tensor grid(const torch::stable::Tensor& pos, const torch::stable::Tensor& size,
                           const std::optional<torch::stable::Tensor>& start,
                           const std::optional<torch::stable::Tensor>& end);

// foo.cpp
torch::stable::Tensor foo_forward(const torch::stable::Tensor& input1, const torch::stable::Tensor& input2,
                                  double attr1, int64_t attr2);

}  // namespace oplab
