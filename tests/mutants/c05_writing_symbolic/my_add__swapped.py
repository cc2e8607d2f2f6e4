# says: alpha and beta are swapped
def my_add():
    def symbolic(g, a, b, alpha, beta):
        return g.op("Add", g.op("Mul", a, beta), g.op("Mul", b, alpha))

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
