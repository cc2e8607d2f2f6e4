def dtypes():
    def symbolic(g, x):
        return g.op("Mul", g.op("Log", x), torch.tensor(1 / math.log(10), dtype=torch.float64))

    torch.onnx.register_custom_op_symbolic("aten::log10", symbolic, 9)
