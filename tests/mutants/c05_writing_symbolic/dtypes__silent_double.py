# says: Without the brackets the constant takes the dtype of x
def dtypes():
    def symbolic(g, x):
        return g.op("Div", g.op("Log", x), g.op("Constant", value_t=torch.tensor([math.log(10)], dtype=torch.float64)))

    torch.onnx.register_custom_op_symbolic("aten::log10", symbolic, 9)
