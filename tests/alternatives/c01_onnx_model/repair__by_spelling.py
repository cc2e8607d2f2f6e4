def repair(model):
    import difflib

    fixed = onnx.ModelProto()
    fixed.ParseFromString(model.SerializeToString())
    graph = fixed.graph
    fixed.ir_version = min(13, fixed.ir_version)
    have = set()
    for entry in fixed.opset_import:
        have.add(entry.domain)
        if not entry.domain:
            entry.version = min(26, entry.version)
    for domain in domains(list(graph.node)) - have:
        fixed.opset_import.add(domain=domain, version=1 if domain else 20)
    fixedly = {value.name for value in [*graph.input, *graph.output]}
    made = {v.name for v in [*graph.input, *graph.initializer]} | {n for node in graph.node for n in node.output}
    read = {n for node in graph.node for n in read_by(node)} | {v.name for v in graph.output}
    for name in read - made:
        (other,) = difflib.get_close_matches(name.lower(), [n.lower() for n in made - read], 1, 0.0)
        other = next(n for n in made - read if n.lower() == other)
        old, new = (name, other) if other in fixedly else (other, name)
        for node in graph.node:
            for names in (node.input, node.output):
                for i, entry in enumerate(names):
                    if entry == old:
                        names[i] = new
        for tensor in graph.initializer:
            if tensor.name == old:
                tensor.name = new
    for end in range(len(graph.node)):
        ready = {v.name for v in [*graph.input, *graph.initializer]} | {n for m in graph.node[:end] for n in m.output}
        best = next(i for i in range(end, len(graph.node)) if set(read_by(graph.node[i])) <= ready)
        node = onnx.NodeProto()
        node.CopyFrom(graph.node[best])
        del graph.node[best]
        graph.node.insert(end, node)
    return fixed
