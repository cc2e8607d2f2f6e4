"""Below 9 the look-up goes up, so a registration at 8 serves 7 as well."""


def per_opset():
    def composed(g, x):
        power = g.op("Exp", x)
        two = g.op("Constant", value_t=torch.tensor(2.0))
        return g.op("Div", g.op("Sub", power, g.op("Reciprocal", power)), two)

    torch.onnx.register_custom_op_symbolic("aten::sinh", composed, 8)
    torch.onnx.register_custom_op_symbolic("aten::sinh", lambda g, x: g.op("Sinh", x), 9)
