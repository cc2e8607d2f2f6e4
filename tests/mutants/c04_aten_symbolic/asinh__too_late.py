# says: The version is the earliest opset that the function serves, and it has to serve opset 9
def asinh():
    torch.onnx.register_custom_op_symbolic("aten::asinh", lambda g, x: g.op("Asinh", x), 13)
