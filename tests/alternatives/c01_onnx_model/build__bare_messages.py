def build(a, b, rank):
    model = onnx.ModelProto(ir_version=8)
    model.opset_import.add(version=17)
    graph = model.graph
    graph.name = "line"
    for values, name in ((graph.input, "x"), (graph.output, "y")):
        kind = values.add(name=name).type.tensor_type
        kind.elem_type = helper.np_dtype_to_tensor_dtype(a.dtype)
        kind.shape.SetInParent()
        for axis in range(rank):
            kind.shape.dim.add(dim_param="hijk"[axis])
    for name, array in (("a", a), ("b", b)):
        graph.initializer.add(name=name, data_type=kind.elem_type, dims=array.shape, raw_data=array.tobytes())
    graph.node.add(op_type="Mul", input=["a", "x"], output=["p"])
    graph.node.add(op_type="Add", input=["p", "b"], output=["y"])
    return model
