"""The loop of the old code, kept; the empty namespace means aten."""


def port_register_op():
    def cosh(g, input, *, out=None):
        return g.op("Cosh", input)

    def too_old(g, input, *, out=None):
        return symbolic_helper._unimplemented("cosh", "needs opset 9")

    @parse_args("v", "f")
    def scale(g, x, factor):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))

    for opset in range(9, 21):
        register_custom_op_symbolic("::cosh", cosh, opset)
        register_custom_op_symbolic("relics::scale", scale, opset)
    for opset in (7, 8):
        register_custom_op_symbolic("::cosh", too_old, opset)
