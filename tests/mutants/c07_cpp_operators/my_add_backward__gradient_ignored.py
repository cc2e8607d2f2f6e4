# says: The incoming gradient is not used
def my_add_backward(name):
    @torch.library.register_fake(name)
    def fake(a, b, alpha=3.0, beta=2.0):
        torch._check(a.dim() == b.dim())
        for m, n in zip(a.shape, b.shape):
            torch._check(m == n)
        return a.new_empty(a.shape)

    def setup_context(ctx, inputs, output):
        _, _, ctx.alpha, ctx.beta = inputs

    def backward(ctx, grad):
        ones = torch.ones_like(grad)
        return ctx.alpha * ones, ctx.beta * ones, None, None

    torch.library.register_autograd(name, backward, setup_context=setup_context)
