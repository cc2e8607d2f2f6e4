# says: Expected the graph inputs ['input'], got ['output']
def export(model, example, path):
    torch.onnx.export(
        model.eval(), (example,), path, input_names=["output"], output_names=["input"],
        dynamic_shapes=({0: "batch", 2: "height", 3: "width"},), verbose=False,
    )
