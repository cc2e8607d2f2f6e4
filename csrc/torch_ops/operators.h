// The C++ functions behind torch.ops.oplab. Each has a file of its own.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <tuple>

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

// knn_query.cpp
std::tuple<torch::stable::Tensor, torch::stable::Tensor> knn_query(
    int64_t nsample, const torch::stable::Tensor& xyz, const torch::stable::Tensor& offset,
    const std::optional<torch::stable::Tensor>& new_xyz, const std::optional<torch::stable::Tensor>& new_offset);

}  // namespace oplab
