def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    low, high = (
        None if n is None else g.op("Constant", value_t=torch.tensor(n).to(x.type().dtype())) for n in (low, high)
    )
    if high is None:
        return g.op("Clip", x, low)
    if low is None:
        low = g.op("prim::Constant").setType(torch._C.OptionalType.ofTensor())
    return g.op("Clip", x, low, high)
