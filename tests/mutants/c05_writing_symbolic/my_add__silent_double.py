# says: Without the brackets the constant takes the dtype of x
def my_add():
    @parse_args("v", "v", "f", "f")
    def symbolic(g, a, b, alpha, beta):
        s, t = (g.op("Constant", value_t=torch.tensor([number], dtype=torch.float64)) for number in (alpha, beta))
        shape = g.op("Shape", a)
        y = g.op("Add", g.op("Mul", a, s), g.op("Mul", b, t))
        return g.op("Reshape", y, shape)

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
