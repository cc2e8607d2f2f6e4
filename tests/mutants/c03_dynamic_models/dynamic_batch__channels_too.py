# says: the header has to say 3
def dynamic_batch(model, photo, gain, path):
    axes = {0: "batch", 1: "channels", 2: "height", 3: "width"}
    torch.onnx.export(
        model,
        (photo, gain),
        path,
        dynamo=False,
        input_names=["photo", "gain"],
        output_names=["output"],
        dynamic_axes={"photo": axes, "gain": {0: "batch"}, "output": axes},
    )
