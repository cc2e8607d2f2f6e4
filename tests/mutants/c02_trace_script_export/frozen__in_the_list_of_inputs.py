# says: No node reads it. To stand in graph.input is not enough
def frozen(model, declared):
    inputs = {value.name for value in onnx.load_from_string(model).graph.input}
    return {name: "used" if name in inputs else "missing" for name in declared}
