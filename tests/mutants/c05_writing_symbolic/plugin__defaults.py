# says: The kernel would take its default
def plugin():
    @parse_args("v", "v", "f", "f")
    def symbolic(g, a, b, alpha, beta):
        half = a.type().dtype() is torch.float16
        if half:
            a, b = (g.op("Cast", x, to_i=torch.onnx.TensorProtoDataType.FLOAT) for x in (a, b))
        y = g.op("oplab::MyAdd", a, b).setType(a.type())
        return g.op("Cast", y, to_i=torch.onnx.TensorProtoDataType.FLOAT16) if half else y

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
