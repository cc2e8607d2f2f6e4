# says: Expected the graph inputs
def one_file(source, target):
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    del model.graph.initializer[:]
    onnx.save(model, target)
