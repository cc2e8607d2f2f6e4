# says: expected a subclass of torch.autograd.Function
def my_add_function():
    class MyAdd(torch.nn.Module):
        def forward(self, a, b, alpha, beta):
            return alpha * a + beta * b

    return MyAdd
