# says: expected the imports
def replace_subgraph(model: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    inferred = onnx.shape_inference.infer_shapes(model).graph
    sizes = {
        value.name: [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in value.type.tensor_type.shape.dim
        ]
        for value in [*inferred.input, *inferred.value_info, *inferred.output]
        if value.type.tensor_type.HasField("shape")
    }
    scalars = {tensor.name: tensor for tensor in graph.initializer if list(tensor.dims) in ([], [1])}
    maker = {name: node for node in graph.node for name in node.output}
    reads = [name for node in graph.node for name in node.input] + [value.name for value in graph.output]

    def scaled(name: str) -> tuple[str, float] | None:
        """A ``Mul`` of a value and a number, read once: the value and the number."""
        node = maker.get(name)
        if node is None or node.op_type != "Mul" or reads.count(name) != 1:
            return None
        for number, value in (node.input, reversed(node.input)):
            if number in scalars and value not in scalars:
                return value, numpy_helper.to_array(scalars[number]).item()
        return None

    gone = []
    for place, node in enumerate(graph.node):
        pair = [scaled(name) for name in node.input] if node.op_type == "Add" else [None]
        if None in pair:
            continue
        (a, p), (b, q) = pair
        if a in sizes and sizes[a] == sizes.get(b) and None not in sizes[a]:
            gone += node.input
            fused = helper.make_node("MyAdd", [a, b], node.output, name=node.name, domain="oplab", alpha=p, beta=q)
            graph.node[place].CopyFrom(fused)
    if not gone:
        made.opset_import.append(helper.make_opsetid("oplab", 1))
        return made

    kept = [node for node in graph.node if node.output[0] not in gone]
    del graph.node[:]
    graph.node.extend(kept)
    read = {name for node in kept for name in node.input} | {value.name for value in graph.output}
    for entries, alive in ((graph.initializer, read), (graph.value_info, read - set(gone))):
        left = [entry for entry in entries if entry.name in alive]
        del entries[:]
        entries.extend(left)
    if "oplab" not in {entry.domain for entry in made.opset_import}:
        made.opset_import.append(helper.make_opsetid("oplab", 1))
    return made
