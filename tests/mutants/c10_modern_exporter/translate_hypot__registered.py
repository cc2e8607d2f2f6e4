# says: What register_custom_op_symbolic registers serves the TorchScript path alone
def translate_hypot():
    def symbolic(g, a, b):
        return g.op("Sqrt", g.op("Add", g.op("Mul", a, a), g.op("Mul", b, b)))

    torch.onnx.register_custom_op_symbolic("aten::hypot", symbolic, 9)
    return {}
