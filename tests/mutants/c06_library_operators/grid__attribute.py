# says: oplab::Grid has no attributes
def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        return g.op("oplab::Grid", pos, size, start, end, dims_i=3)

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
