# says: Expected 1 × Clip in the graph, found 0
def clip(g, x, low, high):
    for name, number in (("Max", low), ("Min", high)):
        if number is not None:
            x = g.op(name, x, g.op("Constant", value_t=torch.tensor(number, dtype=x.type().dtype())))
    return x
