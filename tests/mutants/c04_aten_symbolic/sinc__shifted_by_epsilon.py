# says: sinc of float64
def sinc():
    def symbolic(g, x):
        pi = g.op("Constant", value_t=torch.tensor(math.pi, dtype=torch.float64))
        tiny = g.op("Constant", value_t=torch.tensor(1e-7, dtype=torch.float64))
        scaled = g.op("Mul", g.op("Add", x, tiny), pi)
        return g.op("Div", g.op("Sin", scaled), scaled)

    torch.onnx.register_custom_op_symbolic("aten::sinc", symbolic, 9)
