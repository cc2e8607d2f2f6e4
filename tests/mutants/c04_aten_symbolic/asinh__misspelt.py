# says: names of operators are case-sensitive
def asinh():
    torch.onnx.register_custom_op_symbolic("aten::asinh", lambda g, x: g.op("ASinh", x), 9)
