# says: The result is cosh(x)
def per_opset():
    def composed(g, x):
        half = g.op("Constant", value_t=torch.tensor(0.5))
        return g.op("Mul", g.op("Add", g.op("Exp", x), g.op("Exp", g.op("Neg", x))), half)

    for version in (7, 8):
        torch.onnx.register_custom_op_symbolic("aten::sinh", composed, version)
    torch.onnx.register_custom_op_symbolic("aten::sinh", lambda g, x: g.op("Sinh", x), 9)
