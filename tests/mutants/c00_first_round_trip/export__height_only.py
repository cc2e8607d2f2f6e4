# says: axis 3 is fixed
def export(model, example, path):
    axes = {"input": {0: "batch", 2: "height"}}
    torch.onnx.export(
        model.eval(), (example,), path, dynamo=False, input_names=["input"], output_names=["output"], dynamic_axes=axes
    )
