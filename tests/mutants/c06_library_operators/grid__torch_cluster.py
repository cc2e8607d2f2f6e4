# says: is the name of the PyTorch operator, oplab::grid
def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        return g.op("oplab::Grid", pos, size, start, end)

    torch.onnx.register_custom_op_symbolic("torch_cluster::grid", symbolic, 9)
