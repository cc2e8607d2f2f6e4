# says: `Dim("batch")` becomes a number without a word
def dynamic_batch(model, photo, gain, path):
    from torch.export import Dim

    shapes = {"photo": {0: Dim("batch"), 2: 2 * Dim("half_height"), 3: 2 * Dim("half_width")}, "gain": None}
    torch.onnx.export(
        model,
        (photo, gain),
        path,
        input_names=["photo", "gain"],
        output_names=["output"],
        dynamic_shapes=shapes,
        verbose=False,
    )
