def my_add_backward(name):
    def fake(a, b, alpha=3.0, beta=2.0):
        if a.dim() != b.dim():
            raise RuntimeError(f"shapes {a.shape} and {b.shape}")
        for i in range(a.dim()):
            torch._check(a.size(i) == b.size(i))
        return torch.empty(a.shape, dtype=a.dtype, device=a.device)

    torch.library.register_fake(name, fake)

    def setup_context(ctx, inputs, keyword_only_inputs=None, output=None):
        ctx.factors = inputs[2:]

    def backward(ctx, grad):
        alpha, beta = ctx.factors
        needed = ctx.needs_input_grad
        return grad * alpha if needed[0] else None, grad * beta if needed[1] else None, None, None

    torch.library.register_autograd(name, backward, setup_context=lambda ctx, inputs, output: setup_context(ctx, inputs))
