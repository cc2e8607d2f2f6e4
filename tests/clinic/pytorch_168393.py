"""torch.func.grad of an operator with register_autograd."""

from __future__ import annotations

import torch

from tests.clinic.tools import refusal


@torch.library.custom_op("clinic::square", mutates_args=())
def square(x: torch.Tensor) -> torch.Tensor:
    """x * x, with a registered backward."""
    return x * x


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


square.register_fake(torch.empty_like)
square.register_autograd(lambda ctx, grad: 2 * ctx.saved_tensors[0] * grad, setup_context=_setup)


class Square(torch.autograd.Function):
    """The same operator with a backward that torch.func knows."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        """x * x."""
        return square(x.detach())

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keeps x."""
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        """2 x grad."""
        return 2 * ctx.saved_tensors[0] * grad

    @staticmethod
    def jvp(ctx, tangent):
        """2 x tangent."""
        return 2 * ctx.saved_tensors[0] * tangent


X = torch.tensor([1.0, 2.0, 3.0])


def happens() -> bool:
    message = refusal(RuntimeError, torch.func.grad(lambda x: square(x).sum()), X)
    return "must override the setup_context staticmethod" in message


def way_around() -> None:
    assert torch.func.grad(lambda x: Square.apply(x).sum())(X).tolist() == [2, 4, 6]
    assert torch.func.jvp(Square.apply, (X,), (torch.ones(3),))[1].tolist() == [2, 4, 6]
    leaf = X.clone().requires_grad_()
    square(leaf).sum().backward()  # outside of torch.func the registered backward is right
    assert leaf.grad.tolist() == [2, 4, 6]
