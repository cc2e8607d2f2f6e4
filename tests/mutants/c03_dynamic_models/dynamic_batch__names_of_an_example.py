# says: expected a name that holds the word 'height'
def dynamic_batch(model, photo, gain, path):
    torch.onnx.export(
        model,
        (photo, gain),
        path,
        input_names=["photo", "gain"],
        output_names=["output"],
        verbose=False,
        dynamic_shapes={"photo": {0: "batch", 2: "h", 3: "w"}, "gain": {0: "batch"}},
    )
