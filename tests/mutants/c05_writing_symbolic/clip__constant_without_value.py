# says: A Constant has one attribute here
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    low, high = (
        g.op("Constant") if n is None else g.op("Constant", value_t=torch.tensor(n, dtype=x.type().dtype()))
        for n in (low, high)
    )
    return g.op("Clip", x, low, high)
