# says: 0 is a bound too
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    c = lambda v: g.op("Constant", value_t=torch.tensor(v, dtype=x.type().dtype())) if v else g.op("prim::Constant").setType(torch._C.OptionalType.ofTensor())
    return g.op("Clip", x, c(low), c(high))
