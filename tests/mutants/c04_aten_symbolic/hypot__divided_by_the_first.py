# says: divide the smaller number by the larger one
def hypot():
    def symbolic(g, x, y):
        # divided by the first number, whichever is larger
        one = g.op("Constant", value_t=torch.tensor(1.0, dtype=torch.float64))
        x, y = g.op("Abs", x), g.op("Abs", y)
        ratio = g.op("Div", y, g.op("Where", g.op("Cast", x, to_i=torch.onnx.TensorProtoDataType.BOOL), x, one))
        root = g.op("Mul", x, g.op("Sqrt", g.op("Add", g.op("Mul", ratio, ratio), one)))
        return g.op("Where", g.op("Cast", x, to_i=torch.onnx.TensorProtoDataType.BOOL), root, y)

    torch.onnx.register_custom_op_symbolic("aten::hypot", symbolic, 9)
