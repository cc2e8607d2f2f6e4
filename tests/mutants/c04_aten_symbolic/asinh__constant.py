# says: x is missing. A missing input was baked into the graph as a constant
def asinh():
    def symbolic(g, x):
        return g.op("Constant", value_t=torch.asinh(torch.full((2, 3), 0.5)))

    torch.onnx.register_custom_op_symbolic("aten::asinh", symbolic, 9)
