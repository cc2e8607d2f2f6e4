// c07.my_add: torch.ops.c07_my_add.my_add(a, b, alpha=3.0, beta=2.0) computes alpha*a + beta*b.
// a and b have the same shape, the same dtype (float32 or float64) and any layout; everything
// else is an error (STD_TORCH_CHECK).
// The result is a new contiguous tensor of that shape and dtype, even if it equals an input.
// It is called many times: with different sizes, after errors, and from several threads at
// once. No access is out of bounds.
// Not allowed (contains the answer): csrc/torch_ops/my_add.cpp.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// TODO c07.my_add: c07_my_add::my_add: its schema with the defaults, and its CPU kernel
#error "c07.my_add is not written yet"
