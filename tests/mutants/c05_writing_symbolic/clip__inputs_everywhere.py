# says: up to opset 10 it is an attribute
def clip(g, x, low, high):
    none = g.op("prim::Constant")
    none.setType(torch._C.OptionalType.ofTensor())
    low, high = (
        none if n is None else g.op("Constant", value_t=torch.tensor(n, dtype=x.type().dtype())) for n in (low, high)
    )
    return g.op("Clip", x, low, high)
