# says: return the value of the last node
def clip(g, x, low, high):
    g.op("Clip", x, min_f=low, max_f=high)
