# says: or is computed
def dtypes():
    def symbolic(g, x):
        return g.op(
            "Div", g.op("Log", x), g.op("Log", g.op("Constant", value_t=torch.tensor(10.0, dtype=torch.float64)))
        )

    torch.onnx.register_custom_op_symbolic("aten::log10", symbolic, 9)
