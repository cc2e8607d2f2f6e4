# says: the class has no symbolic and forward was traced
def my_add_function():
    class MyAdd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, alpha, beta):
            ctx.alpha, ctx.beta = alpha, beta
            return alpha * a + beta * b

        @staticmethod
        def backward(ctx, grad):
            return ctx.alpha * grad, ctx.beta * grad, None, None

    return MyAdd
