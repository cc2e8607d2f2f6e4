"""One function that asks the graph context which opset is being written; the registration at 9 serves 7 and 8 too."""


def per_opset():
    def symbolic(g, x):
        if g.opset >= 9:
            return g.op("Sinh", x)
        half = g.op("Constant", value_t=torch.tensor(0.5))
        return g.op("Sub", g.op("Mul", g.op("Exp", x), half), g.op("Mul", g.op("Exp", g.op("Neg", x)), half))

    torch.onnx.register_custom_op_symbolic("aten::sinh", symbolic, 9)
