def build(a, b, rank):
    dtype = helper.np_dtype_to_tensor_dtype(a.dtype)
    values = [helper.make_tensor_value_info(n, dtype, [f"{n}_{i}" for i in range(rank)]) for n in ("x", "y")]
    tensors = [helper.make_tensor(n, dtype, v.shape, v.flatten()) for n, v in (("a", a), ("b", b))]
    nodes = [helper.make_node("Constant", [], [t.name], value=t) for t in tensors]
    nodes += [helper.make_node("Mul", ["x", "a"], ["t"]), helper.make_node("Add", ["t", "b"], ["y"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    return helper.make_model_gen_version(graph, opset_imports=[helper.make_opsetid("", 18)])
