# says: Opset 7 does not have Cosh (since opset 9)
def per_opset():
    def composed(g, x):
        # right for x >= 0 only, and written with an operator as young as Sinh itself
        square = g.op("Sub", g.op("Mul", g.op("Cosh", x), g.op("Cosh", x)), g.op("Constant", value_t=torch.tensor(1.0)))
        return g.op("Sqrt", square)

    for version in (7, 8):
        torch.onnx.register_custom_op_symbolic("aten::sinh", composed, version)
    torch.onnx.register_custom_op_symbolic("aten::sinh", lambda g, x: g.op("Sinh", x), 9)
