# says: one at 7 or 8 stays in use until a higher version is registered
def per_opset():
    def composed(g, x):
        two = g.op("Constant", value_t=torch.tensor(2.0))
        return g.op("Div", g.op("Sub", g.op("Exp", x), g.op("Exp", g.op("Neg", x))), two)

    for version in (7, 8):
        torch.onnx.register_custom_op_symbolic("aten::sinh", composed, version)
