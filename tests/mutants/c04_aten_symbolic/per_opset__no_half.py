# says: the half is missing
def per_opset():
    def composed(g, x):
        return g.op("Sub", g.op("Exp", x), g.op("Exp", g.op("Neg", x)))

    for version in (7, 8):
        torch.onnx.register_custom_op_symbolic("aten::sinh", composed, version)
    torch.onnx.register_custom_op_symbolic("aten::sinh", lambda g, x: g.op("Sinh", x), 9)
