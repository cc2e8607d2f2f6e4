# says: min is None and has to be left out
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    bounds = [g.op("Constant", value_t=torch.tensor(n, dtype=x.type().dtype())) for n in (low, high) if n is not None]
    return g.op("Clip", x, *bounds)
