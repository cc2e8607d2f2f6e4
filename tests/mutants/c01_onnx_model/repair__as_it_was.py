# says: The IR version was
def repair(model):
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    return fixed
