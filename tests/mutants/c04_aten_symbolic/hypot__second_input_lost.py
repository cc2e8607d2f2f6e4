# says: y is missing. A missing input was baked into the graph
def hypot():
    def symbolic(g, x, y):
        return g.op("Abs", x)

    torch.onnx.register_custom_op_symbolic("aten::hypot", symbolic, 9)
