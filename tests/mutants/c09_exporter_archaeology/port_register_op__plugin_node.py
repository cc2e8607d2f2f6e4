# says: Expected 1 × Mul in the graph, found 0
def port_register_op():
    @parse_args("v", "f")
    def scale(g, x, factor):
        return g.op("relics::Scale", x, factor_f=factor).setType(x.type())

    def refuse(g, x):
        raise RuntimeError("cosh needs opset 9")

    register_custom_op_symbolic("aten::cosh", lambda g, x: g.op("Cosh", x), 9)
    register_custom_op_symbolic("aten::cosh", refuse, 8)
    register_custom_op_symbolic("relics::scale", scale, 9)
