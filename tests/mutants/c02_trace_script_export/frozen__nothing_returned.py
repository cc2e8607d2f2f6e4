# says: expected a dict, got None. Is there a return?
def frozen(model, declared):
    graph = onnx.load_from_string(model).graph
    print({name: "used" if name in {value.name for value in graph.input} else "missing" for name in declared})
