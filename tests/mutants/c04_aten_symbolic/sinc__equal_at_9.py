# says: Equal takes float tensors only since opset 11
def sinc():
    def symbolic(g, x):
        pi = g.op("Constant", value_t=torch.tensor(math.pi, dtype=torch.float64))
        one = g.op("Constant", value_t=torch.tensor(1.0, dtype=torch.float64))
        zero = g.op("Constant", value_t=torch.tensor(0.0))
        scaled = g.op("Mul", x, pi)
        return g.op("Where", g.op("Equal", x, zero), one, g.op("Div", g.op("Sin", scaled), scaled))

    torch.onnx.register_custom_op_symbolic("aten::sinc", symbolic, 9)
