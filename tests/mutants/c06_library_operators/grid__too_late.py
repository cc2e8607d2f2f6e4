# says: The version is the earliest opset that a function serves
def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        return g.op("oplab::Grid", pos, size, start, end)

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 13)
