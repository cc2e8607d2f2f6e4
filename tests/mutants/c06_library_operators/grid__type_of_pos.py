# says: is declared FLOAT, expected INT64
def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        return g.op("oplab::Grid", pos, size, start, end).setType(pos.type().with_sizes([None]))

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
