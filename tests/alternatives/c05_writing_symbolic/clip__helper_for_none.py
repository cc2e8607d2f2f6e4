from torch.onnx import symbolic_helper


def clip(g, x, low, high):
    if g.opset <= 10:
        bounds = {f"{name}_f": float(number) for name, number in (("min", low), ("max", high)) if number is not None}
        return g.op("Clip", x, **bounds)
    dtype = symbolic_helper.pytorch_name_to_type[x.type().scalarType()]
    none = symbolic_helper._optional_input_placeholder_tensor(g)
    return g.op("Clip", x, *(none if number is None else torch.tensor(number, dtype=dtype) for number in (low, high)))
