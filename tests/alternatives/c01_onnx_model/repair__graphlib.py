def repair(model):
    import copy
    import graphlib

    fixed = copy.deepcopy(model)
    graph = fixed.graph
    if fixed.ir_version > 13:
        fixed.ir_version = 13
    versions = {entry.domain: entry.version for entry in fixed.opset_import}
    for domain in domains(list(graph.node)):
        versions.setdefault(domain, 1 if domain else 20)
    versions[""] = min(versions[""], 26)
    del fixed.opset_import[:]
    fixed.opset_import.extend(helper.make_opsetid(*entry) for entry in versions.items())

    inputs, outputs = ({value.name for value in values} for values in (graph.input, graph.output))
    made = inputs | {t.name for t in graph.initializer} | {name for node in graph.node for name in node.output}
    read = outputs | {name for node in graph.node for name in read_by(node)}
    for missing in read - made:
        lonely = next(iter(made - read))
        by_body = any(missing in set(read_by(node)) - set(node.input) for node in graph.node)
        if missing in outputs or by_body:
            for node in graph.node:
                node.output[:] = [missing if name == lonely else name for name in node.output]
        else:  # the reader changes
            for node in graph.node:
                node.input[:] = [lonely if name == missing else name for name in node.input]

    makers = {name: i for i, node in enumerate(graph.node) for name in node.output}
    needs = {i: {makers[name] for name in read_by(node) if name in makers} for i, node in enumerate(graph.node)}
    order = [copy.deepcopy(graph.node[i]) for i in graphlib.TopologicalSorter(needs).static_order()]
    del graph.node[:]
    graph.node.extend(order)
    return fixed
