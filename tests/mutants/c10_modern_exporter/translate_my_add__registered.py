# says: What register_custom_op_symbolic registers serves the TorchScript path alone
def translate_my_add():
    def symbolic(g, a, b, alpha, beta):
        return g.op("oplab::MyAdd", a, b, alpha_f=3.0, beta_f=2.0)

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
    return torch.ops.oplab.my_add, {}
