# says: A bound that is None is left out
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    c = lambda v: g.op("Constant", value_t=torch.tensor(v, dtype=x.type().dtype()))
    return g.op("Clip", x, c(low), c(high))
