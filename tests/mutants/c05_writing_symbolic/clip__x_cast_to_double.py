# says: The graph has a Cast to DOUBLE
def clip(g, x, low, high):
    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)

    kinds = torch.onnx.TensorProtoDataType
    to = {torch.float16: 10, torch.float32: 1, torch.float64: 11, torch.int32: 6, torch.int64: 7}[x.type().dtype()]
    none = g.op("prim::Constant")
    none.setType(torch._C.OptionalType.ofTensor())
    low, high = (
        none if n is None else g.op("Constant", value_t=torch.tensor(n, dtype=torch.float64)) for n in (low, high)
    )
    return g.op("Cast", g.op("Clip", g.op("Cast", x, to_i=kinds.DOUBLE), low, high), to_i=to)
