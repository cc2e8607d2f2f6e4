def build(a, b, rank):
    name = {"float16": "float16", "float32": "float", "float64": "double"}.get(str(a.dtype), str(a.dtype))
    sizes = f"[{','.join(f'd{axis}' for axis in range(rank))}]" if rank else ""
    graph = onnx.parser.parse_graph(
        f"line ({name}{sizes} x) => ({name}{sizes} y) {{ scaled = Mul(x, a) y = Add(b, scaled) }}"
    )
    graph.initializer.extend([numpy_helper.from_array(a, "a"), numpy_helper.from_array(b, "b")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx", 26)], ir_version=13)
