# says: gives its axis to the result
def dtypes():
    def symbolic(g, x):
        return g.op(
            "Div", g.op("Log", x), g.op("Constant", value_t=torch.tensor([math.log(10)], dtype=x.type().dtype()))
        )

    torch.onnx.register_custom_op_symbolic("aten::log10", symbolic, 9)
