# says: Nothing is registered
def deform_conv():
    @parse_args(*["v"] * 5, *["i"] * 8, "b")
    def symbolic(g, x, weight, offset, mask, bias, *numbers):
        return g.op("DeformConv", x, weight, offset, bias, mask)

    return symbolic
