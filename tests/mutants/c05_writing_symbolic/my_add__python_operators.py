# says: A value of the graph has no operators
def my_add():
    def symbolic(g, a, b, alpha, beta):
        return alpha * a + beta * b

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
