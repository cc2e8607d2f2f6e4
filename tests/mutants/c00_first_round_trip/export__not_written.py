# says: the file model.onnx was not written
def export(model, example, path):
    return torch.onnx.export(model.eval(), (example,), verbose=False)
