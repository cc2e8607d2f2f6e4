# says: PyTorch calls setup_context(ctx, inputs, output) after the kernel
def my_add_backward(name):
    @torch.library.register_fake(name)
    def fake(a, b, alpha=3.0, beta=2.0):
        torch._check(a.dim() == b.dim())
        for m, n in zip(a.shape, b.shape):
            torch._check(m == n)
        return torch.empty_like(a, memory_format=torch.contiguous_format)

    def setup_context(ctx, inputs, output):
        _, _, ctx.alpha, ctx.beta = inputs

    def backward(ctx, grad):
        return ctx.alpha * grad, ctx.beta * grad, None, None

    torch.library.register_autograd(name, setup_context, setup_context=backward)
