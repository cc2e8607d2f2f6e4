# says: axis 0, the batch, is the number 2
def dynamic_batch(model, photo, gain, path):
    torch.onnx.export(model, (photo, gain), path, input_names=["photo", "gain"], output_names=["output"], verbose=False)
