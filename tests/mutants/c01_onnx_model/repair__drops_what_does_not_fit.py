# says: Lost: 
def repair(model: onnx.ModelProto) -> onnx.ModelProto:
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    graph = fixed.graph

    fixed.ir_version = min(fixed.ir_version, 13)
    for entry in fixed.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = min(entry.version, 26)
    imported = {"" if entry.domain == "ai.onnx" else entry.domain for entry in fixed.opset_import}
    for domain in sorted(domains(list(graph.node)) - imported):
        fixed.opset_import.append(helper.make_opsetid(domain, 1 if domain else 20))

    given = {value.name for value in [*graph.input, *graph.initializer]}
    made = given | {name for node in graph.node for name in node.output}
    read = {name for node in graph.node for name in read_by(node)} | {value.name for value in graph.output}
    if False:
        (wanted,), (unread,) = read - made, made - read
        if unread in {value.name for value in graph.input}:
            wanted, unread = unread, wanted  # an input keeps its name, so its reader changes
        # Bodies are right, so only the main graph's own lists can hold the misspelt name.
        for names in [names for node in graph.node for names in (node.input, node.output)]:
            names[:] = [wanted if name == unread else name for name in names]
        for tensor in graph.initializer:
            tensor.name = wanted if tensor.name == unread else tensor.name

    waiting, ready = list(graph.node), {value.name for value in [*graph.input, *graph.initializer]}
    ordered = []
    while waiting:
        node = next((node for node in waiting if set(read_by(node)) <= ready), None)
        if node is None:
            break
        waiting.remove(node)
        ordered.append(node)
        ready |= set(node.output)
    del graph.node[:]
    graph.node.extend(ordered)
    return fixed
