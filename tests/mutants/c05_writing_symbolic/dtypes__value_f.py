# says: A Constant has one attribute here, the tensor value_t
def dtypes():
    def symbolic(g, x):
        return g.op("Div", g.op("Log", x), g.op("Constant", value_f=math.log(10)))

    torch.onnx.register_custom_op_symbolic("aten::log10", symbolic, 9)
