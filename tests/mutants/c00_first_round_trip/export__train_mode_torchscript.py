# says: has a BatchNormalization node for training
def export(model, example, path):
    axes = {"input": {0: "batch", 2: "height", 3: "width"}}
    torch.onnx.export(
        model, (example,), path, dynamo=False, training=torch.onnx.TrainingMode.PRESERVE,
        input_names=["input"], output_names=["output"], dynamic_axes=axes,
    )
