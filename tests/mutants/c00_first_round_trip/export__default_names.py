# says: Expected the graph inputs ['input'], got ['image']
def export(model, example, path):
    torch.onnx.export(model.eval(), (example,), path, dynamic_shapes=({0: "batch", 2: "height", 3: "width"},), verbose=False)
