"""Chapter 07: C++ operators for PyTorch.

`make check EX=c07` grades this file and `csrc/c07_*.cpp`.
"""

from __future__ import annotations

import os

import setuptools
import torch
from torch.utils.cpp_extension import BuildExtension, CppExtension

from oplab import todo


def given_fake(a, b, alpha=3.0, beta=2.0):
    """Given, with a fault, for ``my_add_backward``."""
    for m, n in zip(reversed(a.shape), reversed(b.shape), strict=False):
        torch._check(m == n, lambda: "b does not fit a.")
    torch._check(b.dim() <= a.dim(), lambda: "b has more axes than a.")
    torch._check(a.dtype == b.dtype, lambda: "a and b must have the same dtype.")
    torch._check(a.device == b.device, lambda: "a and b must be on the same device.")
    return torch.empty_like(a, memory_format=torch.contiguous_format)


def given_context(ctx, inputs, output):
    """Given, and right: what ``given_backward`` needs from the call."""
    _, b, ctx.alpha, ctx.beta = inputs
    ctx.shape = b.shape


def given_backward(ctx, grad):
    """Given, with a fault, for ``my_add_backward``."""
    slope = ctx.beta * grad
    return ctx.alpha * grad, slope.sum_to_size(ctx.shape), None, None


def my_add_backward(name: str) -> None:
    """Repair the fake and the backward above, and register them for an
    operator.

    Args:
        name: the operator, for example ``"c07_my_add::my_add"``, your
            own. Its schema is ``(Tensor a, Tensor b, float alpha=3.0,
            float beta=2.0) -> Tensor``.

    The kernel computes alpha*a + beta*b for float32 and float64 of any
    layout. b has the first axes of a (all, some or none), and each of
    its numbers belongs to a whole block of a; all else is an error, in
    the kernel and in the fake. The result is a new contiguous tensor of
    a's shape and dtype. The fake describes exactly that result, for any
    shape, including a size that depends on the data (the length of
    `a[a > 0]`, for example). The backward returns the gradients of a
    and b, each in the shape of its input, and does not change the
    gradient that it gets.

    `given_fake` and `given_backward` have one fault each. Their author
    tested a and b of one shape, and a square a with one number of b for
    each row. Repair a copy of them inside your function, because
    `oplab reset` restores that function alone.
    """

    # TODO c07.my_add_backward: register a fake and a backward without the two faults
    raise todo("c07.my_add_backward")


def setup() -> None:
    """What the `setup.py` of a package does: describe it to setuptools,
    with one call of `setuptools.setup`.

    The package is in `csrc/package`, and its `setup.py` is missing:

        src/c07_ops/__init__.py   loads `_C*.so`, which has to be next
                                  to it, and adds a fake
        cpp/my_add.cpp            the operator c07_ops::my_add, on the
                                  stable ABI
        cpp/loop.cpp              its loop
        cpp/include/loop.h        included by both sources

    The distribution is `c07-ops`, version 1.0, for Python 3.10 and
    newer and PyTorch 2.13 and newer; for the stable ABI, 2.13 is
    `0x020d000000000000`. One wheel fits all these versions of Python.
    The source archive (sdist) has every file that the build needs.

    The grader copies the folder, adds a setup.py that calls this
    function, and does what pip does: it makes the sdist, builds a wheel
    from it, and installs it into an empty folder. `__file__` is that
    setup.py, and the current folder is the one that it is in. Another
    process then imports c07_ops. The function itself compiles nothing.
    """
    # TODO c07.setup: write the setup.py of the package in csrc/package
    raise todo("c07.setup")
