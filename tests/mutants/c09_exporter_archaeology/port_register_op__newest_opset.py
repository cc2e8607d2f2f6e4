# says: a version that is not above opset 9
def port_register_op():
    @parse_args("v", "f")
    def scale(g, x, factor):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))

    register_custom_op_symbolic("aten::cosh", lambda g, x: g.op("Cosh", x), 15)
    register_custom_op_symbolic("relics::scale", scale, 9)
