# says: so the one at 9 answers for opset 8 too
def per_opset():
    def composed(g, x):
        two = g.op("Constant", value_t=torch.tensor(2.0))
        return g.op("Div", g.op("Sub", g.op("Exp", x), g.op("Exp", g.op("Neg", x))), two)

    torch.onnx.register_custom_op_symbolic("aten::sinh", composed, 7)
    torch.onnx.register_custom_op_symbolic("aten::sinh", lambda g, x: g.op("Sinh", x), 9)
