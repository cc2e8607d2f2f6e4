def export(model, example, path):
    names = {"input_names": ["input"], "output_names": ["output"]}
    axes = {name: {0: "batch", 2: "height", 3: "width"} for name in ("input", "output")}
    torch.onnx.export(model, (example,), str(path), dynamo=False, dynamic_axes=axes, opset_version=17, **names)
