# says: got the keys
def frozen(model, declared):
    inputs = {value.name for value in onnx.load_from_string(model).graph.input}
    return {name: "missing" for name in declared if name not in inputs}
