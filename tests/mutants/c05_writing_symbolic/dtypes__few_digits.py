# says: This is what log10(e) with few digits gives
def dtypes():
    def symbolic(g, x):
        return g.op("Mul", g.op("Log", x), g.op("Constant", value_t=torch.tensor(0.4342944819, dtype=torch.float64)))

    torch.onnx.register_custom_op_symbolic("aten::log10", symbolic, 9)
