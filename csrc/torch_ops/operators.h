// The C++ functions that torch.ops.oplab calls, one file each.
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

// dynamic_resize.cpp
torch::stable::Tensor dynamic_resize(const torch::stable::Tensor& x, const torch::stable::Tensor& scales);
torch::stable::Tensor dynamic_resize_backward(const torch::stable::Tensor& grad, const torch::stable::Tensor& scales,
                                              int64_t height, int64_t width);

}  // namespace oplab
