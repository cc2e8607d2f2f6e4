# says: names of operators are case-sensitive
def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        return g.op("oplab::grid", pos, size, start, end)

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
