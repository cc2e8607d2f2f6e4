"""The compiled operator computes, and the gradient is one line per input that asks."""


def my_add_function():
    class MyAdd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, alpha, beta):
            ctx.numbers = alpha, beta
            return torch.ops.oplab.my_add(a, b, alpha, beta)

        @staticmethod
        def backward(ctx, grad):
            wanted = zip(ctx.needs_input_grad[:2], ctx.numbers, strict=True)
            return *(factor * grad if need else None for need, factor in wanted), None, None

        @staticmethod
        def symbolic(g, a, b, alpha, beta):
            return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())

    return MyAdd
