# says: a name which the exporter made up
def dynamic_batch(model, photo, gain, path):
    from torch.export import Dim

    auto = Dim.AUTO
    torch.onnx.export(
        model,
        (photo, gain),
        path,
        input_names=["photo", "gain"],
        output_names=["output"],
        verbose=False,
        dynamic_shapes={"photo": {0: auto, 2: auto, 3: auto}, "gain": {0: auto}},
    )
