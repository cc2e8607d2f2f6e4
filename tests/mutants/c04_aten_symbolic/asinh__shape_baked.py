# says: the graph also has
def asinh():
    def symbolic(g, x):
        shape = g.op("Constant", value_t=torch.tensor([2, 3]))
        return g.op("Reshape", g.op("Asinh", x), shape)

    torch.onnx.register_custom_op_symbolic("aten::asinh", symbolic, 9)
