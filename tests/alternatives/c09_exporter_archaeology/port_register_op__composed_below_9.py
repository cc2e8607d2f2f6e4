"""A valid model at opsets 7 and 8 is as good as none."""


def port_register_op():
    def composed(g, x):
        half = g.op("Constant", value_t=torch.tensor(0.5))
        return g.op("Mul", g.op("Add", g.op("Exp", x), g.op("Exp", g.op("Neg", x))), half)

    @parse_args("v", "f")
    def scale(g, x, factor):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))

    register_custom_op_symbolic("aten::cosh", composed, 8)
    register_custom_op_symbolic("aten::cosh", lambda g, x: g.op("Cosh", x), 9)
    register_custom_op_symbolic("relics::scale", scale, 1)
