# says: in the file model.onnx.data beside it, and that is missing
def export(model, example, path):
    torch.onnx.export(
        model.eval(), (example,), path, input_names=["input"], output_names=["output"],
        dynamic_shapes=({0: "batch", 2: "height", 3: "width"},), verbose=False,
    )
    for other in path.parent.glob("*.data"):
        other.unlink()
