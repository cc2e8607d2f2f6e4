# says: The graph divides 0 by 0 there
def hypot():
    def symbolic(g, x, y):
        one = g.op("Constant", value_t=torch.tensor(1.0, dtype=torch.float64))
        x, y = g.op("Abs", x), g.op("Abs", y)
        large, small = g.op("Max", x, y), g.op("Min", x, y)
        ratio = g.op("Div", small, large)
        return g.op("Mul", large, g.op("Sqrt", g.op("Add", g.op("Mul", ratio, ratio), one)))

    torch.onnx.register_custom_op_symbolic("aten::hypot", symbolic, 9)
