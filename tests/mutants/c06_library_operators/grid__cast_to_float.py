# says: the graph also has Cast
def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        return g.op("Cast", g.op("oplab::Grid", pos, size, start, end), to_i=torch.onnx.TensorProtoDataType.FLOAT)

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
