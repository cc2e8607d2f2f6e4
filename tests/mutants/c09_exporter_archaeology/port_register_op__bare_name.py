# says: The symbolic name must match the format domain::name
# status: error
def port_register_op():
    def cosh(g, x):
        return g.op("Cosh", x)

    register_custom_op_symbolic("cosh", cosh, 9)
