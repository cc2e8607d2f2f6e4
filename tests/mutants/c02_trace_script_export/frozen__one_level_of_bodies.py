# says: read in a branch inside a branch
def frozen(model, declared):
    def reads(node):
        names = set(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                names |= {value.name for value in attribute.g.output}
                names |= {name for inner in attribute.g.node for name in inner.input}
        return names

    graph = onnx.load_from_string(model).graph
    inputs = {value.name for value in graph.input}
    alive = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if alive & set(node.output):
            alive |= reads(node)
    return {name: "missing" if name not in inputs else "used" if name in alive else "unused" for name in declared}
