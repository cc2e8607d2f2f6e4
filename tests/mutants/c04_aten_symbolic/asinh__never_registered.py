# says: Nothing is registered
def asinh():
    def symbolic(g, x):
        return g.op("Asinh", x)

    return symbolic
