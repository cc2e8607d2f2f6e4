def shapes(model):
    done = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    found = {}
    for value in list(done.graph.value_info) + list(done.graph.output) + list(done.graph.input):
        kind = value.type.tensor_type
        name = str(helper.tensor_dtype_to_np_dtype(kind.elem_type))
        if not kind.HasField("shape"):
            found[value.name] = name
            continue
        sizes = []
        for dim in kind.shape.dim:
            which = dim.WhichOneof("value")
            sizes.append("?" if which is None else str(getattr(dim, which)))
        found[value.name] = name + "[" + ",".join(sizes) + "]"
    for tensor in done.graph.initializer:
        array = numpy_helper.to_array(tensor)
        found[tensor.name] = f"{array.dtype}{list(array.shape)}"
    return found
