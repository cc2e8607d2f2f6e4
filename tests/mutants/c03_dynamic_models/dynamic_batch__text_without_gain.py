# says: tracing inferred a static shape of 2
# status: error
def dynamic_batch(model, photo, gain, path):
    torch.onnx.export(
        model,
        (photo, gain),
        path,
        input_names=["photo", "gain"],
        output_names=["output"],
        verbose=False,
        dynamic_shapes={"photo": {0: "batch", 2: "height", 3: "width"}, "gain": None},
    )
