# says: The graph has a Cast to DOUBLE
def dtypes():
    def symbolic(g, x):
        kinds = torch.onnx.TensorProtoDataType
        to = {torch.float16: kinds.FLOAT16, torch.float32: kinds.FLOAT, torch.float64: kinds.DOUBLE}[x.type().dtype()]
        wide = g.op("Log", g.op("Cast", x, to_i=kinds.DOUBLE))
        return g.op("Cast", g.op("Div", wide, torch.tensor(math.log(10), dtype=torch.float64)), to_i=to)

    torch.onnx.register_custom_op_symbolic("aten::log10", symbolic, 9)
