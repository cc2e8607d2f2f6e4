# says: save_for_backward is for tensors
def my_add_function():
    class MyAdd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, alpha, beta):
            ctx.save_for_backward(alpha, beta)
            return alpha * a + beta * b

        @staticmethod
        def backward(ctx, grad):
            alpha, beta = ctx.saved_tensors
            return alpha * grad, beta * grad, None, None

        @staticmethod
        def symbolic(g, a, b, alpha, beta):
            return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())

    return MyAdd
