# says: is x.type().dtype()
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    low, high = (g.op("Constant", value_t=torch.tensor(n or 0, dtype=x.dtype)) for n in (low, high))
    return g.op("Clip", x, low, high)
