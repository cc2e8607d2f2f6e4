# says: axis 0 is fixed
def export(model, example, path):
    torch.onnx.export(
        model.eval(), (example,), path, input_names=["input"], output_names=["output"],
        dynamic_shapes=({2: "height", 3: "width"},), verbose=False,
    )
