# says: an empty name "" is no read
def repair(model: onnx.ModelProto) -> onnx.ModelProto:
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    graph = fixed.graph
    waiting, ready = list(graph.node), {value.name for value in [*graph.input, *graph.initializer]}
    ordered = []
    while found := [node for node in waiting if set(node.input) <= ready]:
        ordered.append(found[0])
        waiting.remove(found[0])
        ready |= set(found[0].output)
    del graph.node[:]
    graph.node.extend(ordered)
    return fixed
