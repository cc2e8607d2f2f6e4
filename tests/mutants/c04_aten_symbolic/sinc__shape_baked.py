# says: a shape of that moment seems to stand in the graph
def sinc():
    def symbolic(g, x):
        pi = g.op("Constant", value_t=torch.tensor(math.pi, dtype=torch.float64))
        ones = g.op("Constant", value_t=torch.ones(2, 3))
        scaled = g.op("Mul", x, pi)
        nonzero = g.op("Cast", x, to_i=torch.onnx.TensorProtoDataType.BOOL)
        return g.op("Where", nonzero, g.op("Div", g.op("Sin", scaled), scaled), ones)

    torch.onnx.register_custom_op_symbolic("aten::sinc", symbolic, 9)
