# says: They were rounded on the way
def one_file(source, target):
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    onnx.save(model, target)
