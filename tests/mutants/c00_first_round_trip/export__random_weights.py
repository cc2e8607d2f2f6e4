# says: The weights in the file are not those of the model that was given
def export(model, example, path):
    model = type(model)().eval()
    axes = {"input": {0: "batch", 2: "height", 3: "width"}}
    torch.onnx.export(model, (example,), path, dynamo=False, input_names=["input"], output_names=["output"], dynamic_axes=axes)
