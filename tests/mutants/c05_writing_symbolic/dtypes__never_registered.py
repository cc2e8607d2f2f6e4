# says: What the export uses is PyTorch's own mapping
def dtypes():
    def symbolic(g, x):
        return g.op("Div", g.op("Log", x), g.op("Constant", value_t=torch.tensor(math.log(10), dtype=torch.float64)))

    return symbolic
