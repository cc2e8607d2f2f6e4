# says: gives its axis to the result
def my_add():
    @parse_args("v", "v", "f", "f")
    def symbolic(g, a, b, alpha, beta):
        s = g.op("Constant", value_t=torch.tensor([int(alpha * 10)]))
        t = g.op("Constant", value_t=torch.tensor([int(beta * 10)]))
        ten = g.op("Constant", value_t=torch.tensor(10))
        raise_it = g.op("Add", g.op("Mul", a, s), g.op("Mul", b, t))
        return g.op("Div", raise_it, ten)

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
