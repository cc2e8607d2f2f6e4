# says: over every node that they need
def frozen(model, declared):
    graph = onnx.load_from_string(model).graph
    inputs = {value.name for value in graph.input}
    outputs = {value.name for value in graph.output}
    read = {name for node in graph.node if outputs & set(node.output) for name in node.input}
    return {name: "missing" if name not in inputs else "used" if name in read else "unused" for name in declared}
