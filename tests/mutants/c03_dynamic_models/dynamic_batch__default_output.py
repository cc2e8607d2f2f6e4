# says: Expected the graph outputs ['output']
def dynamic_batch(model, photo, gain, path):
    shapes = {"photo": {0: "batch", 2: "height", 3: "width"}, "gain": {0: "batch"}}
    torch.onnx.export(model, (photo, gain), path, dynamic_shapes=shapes, verbose=False)
