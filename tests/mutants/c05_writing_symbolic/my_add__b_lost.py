# says: b is missing. A missing input was baked
def my_add():
    def symbolic(g, a, b, alpha, beta):
        return g.op("Add", g.op("Mul", a, alpha), g.op("Mul", a, beta))

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
