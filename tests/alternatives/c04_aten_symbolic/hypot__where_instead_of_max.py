"""The larger and the smaller picked by Where, and the divisor made 1 by adding the truth value of large = 0."""


def hypot():
    def symbolic(g, x, y):
        dtype = {"Float": 1, "Double": 11}[x.type().scalarType()]
        x, y = g.op("Abs", x), g.op("Abs", y)
        greater = g.op("Greater", x, y)
        large, small = g.op("Where", greater, x, y), g.op("Where", greater, y, x)
        at_zero = g.op("Cast", g.op("Not", g.op("Cast", large, to_i=9)), to_i=dtype)
        ratio = g.op("Div", small, g.op("Add", large, at_zero))
        one = g.op("Constant", value_t=torch.tensor(1.0))
        return g.op("Mul", large, g.op("Sqrt", g.op("Add", one, g.op("Mul", ratio, ratio))))

    torch.onnx.register_custom_op_symbolic("aten::hypot", symbolic, 9)
