# says: This is 2a + b, the operator of another text
def my_add():
    def symbolic(g, a, b, alpha, beta):
        two = g.op("Constant", value_t=torch.tensor(2.0))
        return g.op("Add", g.op("Mul", a, two), b)

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
