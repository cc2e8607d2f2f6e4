# says: the Add comes first
def build(a: np.ndarray, b: np.ndarray, rank: int) -> onnx.ModelProto:
    dtype = helper.np_dtype_to_tensor_dtype(a.dtype)
    axes = [f"size{axis}" for axis in range(rank)]
    graph = helper.make_graph(
        [helper.make_node("Add", ["b", "x"], ["xb"]), helper.make_node("Mul", ["xb", "a"], ["y"])],
        "line",
        [helper.make_tensor_value_info("x", dtype, axes)],
        [helper.make_tensor_value_info("y", dtype, axes)],
        [numpy_helper.from_array(a, "a"), numpy_helper.from_array(b, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
