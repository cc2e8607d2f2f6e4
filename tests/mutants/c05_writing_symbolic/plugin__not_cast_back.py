# says: Expected 3 × Cast for float16
def plugin():
    @parse_args("v", "v", "f", "f")
    def symbolic(g, a, b, alpha, beta):
        half = a.type().dtype() is torch.float16
        if half:
            a, b = (g.op("Cast", x, to_i=torch.onnx.TensorProtoDataType.FLOAT) for x in (a, b))
        return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
