# says: The process crashed with SIGSEGV
# status: crashed
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    low, high = (
        n if n is None else g.op("Constant", value_t=torch.tensor(n, dtype=x.type().dtype())) for n in (low, high)
    )
    return g.op("Clip", x, low, high)
