# says: the answer says 'used'
def frozen(model, declared):
    graph = onnx.load_from_string(model).graph
    return {name: "used" if i < len(graph.input) else "missing" for i, name in enumerate(declared)}
