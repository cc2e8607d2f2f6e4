# says: compares whole shapes
def my_add_backward(name):
    @torch.library.register_fake(name)
    def fake(a, b, alpha=3.0, beta=2.0):
        torch._check(a.shape == b.shape, lambda: "a and b must have the same shape.")
        torch._check(a.dtype == b.dtype, lambda: "a and b must have the same dtype.")
        torch._check(a.device == b.device, lambda: "a and b must be on the same device.")
        return torch.empty_like(a, memory_format=torch.contiguous_format)

    def setup_context(ctx, inputs, output):
        _, _, ctx.alpha, ctx.beta = inputs

    def backward(ctx, grad):
        return ctx.alpha * grad, ctx.beta * grad, None, None

    torch.library.register_autograd(name, backward, setup_context=setup_context)
