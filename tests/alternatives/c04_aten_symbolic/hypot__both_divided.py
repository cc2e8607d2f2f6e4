"""Both numbers divided by the larger one."""


def hypot():
    def symbolic(g, x, y):
        large = g.op("Max", g.op("Abs", x), g.op("Abs", y))
        one = g.op("Constant", value_t=torch.tensor(1.0, dtype=torch.float64))
        divisor = g.op("Where", g.op("Cast", large, to_i=9), large, one)
        x, y = g.op("Div", x, divisor), g.op("Div", y, divisor)
        return g.op("Mul", large, g.op("Sqrt", g.op("Add", g.op("Mul", x, x), g.op("Mul", y, y))))

    torch.onnx.register_custom_op_symbolic("aten::hypot", symbolic, 9)
