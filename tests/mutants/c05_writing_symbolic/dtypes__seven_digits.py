# says: the constant has too few digits
def dtypes():
    def s(g, x):
        return g.op("Div", g.op("Log", x), g.op("Constant", value_t=torch.tensor(2.302585, dtype=torch.float64)))
    torch.onnx.register_custom_op_symbolic("aten::log10", s, 9)
