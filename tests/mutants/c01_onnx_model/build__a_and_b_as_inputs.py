# says: Expected the graph inputs ['x']
def build(a: np.ndarray, b: np.ndarray, rank: int) -> onnx.ModelProto:
    dtype = helper.np_dtype_to_tensor_dtype(a.dtype)
    axes = [f"size{axis}" for axis in range(rank)]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["a", "x"], ["ax"]), helper.make_node("Add", ["ax", "b"], ["y"])],
        "line",
        [helper.make_tensor_value_info(n, dtype, s) for n, s in (("x", axes), ("a", a.shape), ("b", b.shape))],
        [helper.make_tensor_value_info("y", dtype, axes)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
