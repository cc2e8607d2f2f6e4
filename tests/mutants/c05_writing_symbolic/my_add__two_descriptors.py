# says: parse_args needs one descriptor for each argument of the schema
def my_add():
    @parse_args("v", "v")
    def symbolic(g, a, b, alpha, beta):
        return g.op("Add", g.op("Mul", a, alpha), g.op("Mul", b, beta))

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
