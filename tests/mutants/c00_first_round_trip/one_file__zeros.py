# says: have changed
def one_file(source, target):
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        zeros = np.zeros_like(onnx.numpy_helper.to_array(tensor))
        tensor.CopyFrom(onnx.numpy_helper.from_array(zeros, tensor.name))
    onnx.save(model, target)
