# says: from opset 11 on it is an input
def clip(g, x, low, high):
    return g.op("Clip", x, min_f=low, max_f=high)
