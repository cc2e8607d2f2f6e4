# says: make a number a Constant
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    return g.op("Clip", x, low, high)
