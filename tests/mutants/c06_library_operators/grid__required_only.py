# says: is given in PyTorch and lost in ONNX
def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        return g.op("oplab::Grid", pos, size)

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
