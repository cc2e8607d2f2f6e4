# says: is None and has to be left out
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)

    least = torch.finfo(torch.float16).min
    low, high = (least if low is None else low), (-least if high is None else high)
    low, high = (g.op("Constant", value_t=torch.tensor(n, dtype=x.type().dtype())) for n in (low, high))
    return g.op("Clip", x, low, high)
