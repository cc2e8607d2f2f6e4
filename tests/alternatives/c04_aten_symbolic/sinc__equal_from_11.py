"""Equal where it takes floats, Cast before that."""


def sinc():
    def symbolic(g, x):
        dtype = {"Half": torch.half, "Float": torch.float, "Double": torch.double}[x.type().scalarType()]
        pi, zero, one = (g.op("Constant", value_t=torch.tensor(number, dtype=dtype)) for number in (math.pi, 0.0, 1.0))
        at_zero = g.op("Equal", x, zero) if g.opset >= 11 else g.op("Not", g.op("Cast", x, to_i=9))
        scaled = g.op("Mul", pi, g.op("Where", at_zero, one, x))
        return g.op("Where", at_zero, one, g.op("Div", g.op("Sin", scaled), scaled))

    torch.onnx.register_custom_op_symbolic("aten::sinc", symbolic, 9)
