# says: The coefficients were float32 once and lost digits
def my_add():
    @parse_args("v", "v", "f", "f")
    def symbolic(g, a, b, alpha, beta):
        s, t = (g.op("Constant", value_t=torch.tensor(number)) for number in (alpha, beta))
        return g.op("Add", g.op("Mul", a, s), g.op("Mul", b, t))

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
