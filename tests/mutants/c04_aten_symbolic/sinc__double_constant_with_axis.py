# says: A float64 constant that has axes
def sinc():
    def symbolic(g, x):
        pi = g.op("Constant", value_t=torch.tensor([math.pi], dtype=torch.float64))
        one = g.op("Constant", value_t=torch.tensor([1.0], dtype=torch.float64))
        scaled = g.op("Mul", x, pi)
        nonzero = g.op("Cast", x, to_i=torch.onnx.TensorProtoDataType.BOOL)
        return g.op("Where", nonzero, g.op("Div", g.op("Sin", scaled), scaled), one)

    torch.onnx.register_custom_op_symbolic("aten::sinc", symbolic, 9)
