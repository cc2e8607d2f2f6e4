"""Chapter 07: C++ operators for PyTorch. `make check EX=c07` grades this file and `csrc/c07_*.cpp`."""

from __future__ import annotations

import torch

from oplab import todo


def my_add_backward(name: str) -> None:
    """Give a compiled operator what PyTorch needs in addition to its kernel: a fake and a backward.

    Args:
        name: the operator, for example ``"oplab::my_add"``. Its schema is
            ``(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor``, and its kernel computes alpha*a + beta*b.

    The kernel takes float32 and float64 of any layout and returns a new contiguous tensor of the same shape and dtype. Different
    shapes or dtypes of a and b are an error, in the kernel and in the fake. The fake describes exactly that result, for any shape,
    including a size that depends on the data (the length of `a[a > 0]`, for example). The backward returns the gradients of a and
    b, and does not change the gradient that it gets.
    """

    # ANSWER c07.my_add_backward: register a fake and a backward for the operator `name`
    @torch.library.register_fake(name)
    def fake(a, b, alpha=3.0, beta=2.0):
        torch._check(a.dim() == b.dim(), lambda: "a and b must have the same shape.")
        for m, n in zip(a.shape, b.shape, strict=True):
            torch._check(m == n, lambda: "a and b must have the same shape.")
        torch._check(a.dtype == b.dtype, lambda: "a and b must have the same dtype.")
        torch._check(a.device == b.device, lambda: "a and b must be on the same device.")
        return torch.empty_like(a, memory_format=torch.contiguous_format)

    def setup_context(ctx, inputs, output):
        _, _, ctx.alpha, ctx.beta = inputs

    def backward(ctx, grad):
        return ctx.alpha * grad, ctx.beta * grad, None, None

    torch.library.register_autograd(name, backward, setup_context=setup_context)
    # END
