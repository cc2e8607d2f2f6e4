# says: so the one at 9 answers for opset 7 too
def per_opset():
    torch.onnx.register_custom_op_symbolic("aten::sinh", lambda g, x: g.op("Sinh", x), 9)
