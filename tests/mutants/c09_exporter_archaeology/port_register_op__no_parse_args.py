# says: parse_args makes a Python number of it
def port_register_op():
    def scale(g, x, factor):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))

    def refuse(g, x):
        raise RuntimeError("cosh needs opset 9")

    register_custom_op_symbolic("aten::cosh", lambda g, x: g.op("Cosh", x), 9)
    register_custom_op_symbolic("aten::cosh", refuse, 8)
    register_custom_op_symbolic("relics::scale", scale, 9)
