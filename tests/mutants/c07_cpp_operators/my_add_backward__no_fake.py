# says: the operator has no fake
def my_add_backward(name):
    def setup_context(ctx, inputs, output):
        _, _, ctx.alpha, ctx.beta = inputs

    def backward(ctx, grad):
        return ctx.alpha * grad, ctx.beta * grad, None, None

    torch.library.register_autograd(name, backward, setup_context=setup_context)
