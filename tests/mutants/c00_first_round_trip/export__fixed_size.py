# says: axis 0 is fixed, so only that size can be run
def export(model, example, path):
    torch.onnx.export(model.eval(), (example,), path, dynamo=False, input_names=["input"], output_names=["output"])
