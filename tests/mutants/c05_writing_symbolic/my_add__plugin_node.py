# says: use operators of ONNX alone
def my_add():
    @parse_args("v", "v", "f", "f")
    def symbolic(g, a, b, alpha, beta):
        return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
