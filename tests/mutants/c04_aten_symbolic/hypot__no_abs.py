# says: Max and Min need Abs(x) and Abs(y)
def hypot():
    def symbolic(g, x, y):
        one = g.op("Constant", value_t=torch.tensor(1.0, dtype=torch.float64))
        large, small = g.op("Max", x, y), g.op("Min", x, y)
        nonzero = g.op("Cast", large, to_i=torch.onnx.TensorProtoDataType.BOOL)
        ratio = g.op("Div", small, g.op("Where", nonzero, large, one))
        return g.op("Mul", large, g.op("Sqrt", g.op("Add", g.op("Mul", ratio, ratio), one)))

    torch.onnx.register_custom_op_symbolic("aten::hypot", symbolic, 9)
