# says: What counts is the full name, with the namespace of the torch operator
def port_register_op():
    @parse_args("v", "f")
    def scale(g, x, factor):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))

    def refuse(g, x):
        raise RuntimeError("cosh needs opset 9")

    register_custom_op_symbolic("::cosh", lambda g, x: g.op("Cosh", x), 9)
    register_custom_op_symbolic("::cosh", refuse, 8)
    register_custom_op_symbolic("::scale", scale, 9)
