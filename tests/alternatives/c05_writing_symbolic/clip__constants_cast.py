from torch.onnx import symbolic_helper


def clip(g, x, low, high):
    def bound(number):
        if number is None:
            return g.op("prim::Constant").setType(torch._C.OptionalType.ofTensor())
        kind = symbolic_helper.cast_pytorch_to_onnx[x.type().scalarType()]
        return g.op("Cast", g.op("Constant", value_t=torch.tensor(number)), to_i=kind)

    if g.opset < 11:
        return g.op("Clip", x, min_f=low, max_f=high)
    return g.op("Clip", x, bound(low), bound(high))
