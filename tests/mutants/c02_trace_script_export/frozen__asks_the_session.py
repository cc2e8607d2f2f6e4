# says: is unused, the answer says 'used'
def frozen(model, declared):
    import onnxruntime

    session = onnxruntime.InferenceSession(model)
    inputs = [value.name for value in session.get_inputs()]
    return {name: "used" if name in inputs else "missing" for name in declared}
