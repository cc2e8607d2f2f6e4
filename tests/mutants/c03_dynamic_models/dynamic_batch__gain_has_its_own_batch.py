# says: the two axes need the same name
def dynamic_batch(model, photo, gain, path):
    axes = {0: "batch", 2: "height", 3: "width"}
    torch.onnx.export(
        model,
        (photo, gain),
        path,
        dynamo=False,
        input_names=["photo", "gain"],
        output_names=["output"],
        dynamic_axes={"photo": axes, "gain": {0: "n"}, "output": axes},
    )
