# says: A Python int becomes an int64
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    none = g.op("prim::Constant")
    none.setType(torch._C.OptionalType.ofTensor())
    low, high = (none if n is None else g.op("Constant", value_t=torch.tensor(n)) for n in (low, high))
    return g.op("Clip", x, low, high)
