# says: was exported in train mode
def export(model, example, path):
    torch.onnx.export(
        model, (example,), path, input_names=["input"], output_names=["output"],
        dynamic_shapes=({0: "batch", 2: "height", 3: "width"},), verbose=False,
    )
