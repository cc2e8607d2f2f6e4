# says: axes of one name always have the same size
def dynamic_batch(model, photo, gain, path):
    axes = {0: "batch", 2: "height_and_width", 3: "height_and_width"}
    torch.onnx.export(
        model,
        (photo, gain),
        path,
        dynamo=False,
        input_names=["photo", "gain"],
        output_names=["output"],
        dynamic_axes={"photo": axes, "gain": {0: "batch"}, "output": axes},
    )
