# says: a shape of that moment
def my_add():
    def symbolic(g, a, b, alpha, beta):
        y = g.op("Add", g.op("Mul", a, alpha), g.op("Mul", b, beta))
        return g.op("Add", y, g.op("Constant", value_t=torch.zeros(2, 3)))

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
