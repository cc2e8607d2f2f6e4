# says: It stands in a model-local function
def inventory(model: onnx.ModelProto) -> list[tuple[str, str, int, str, str, object]]:

    def imports(owner: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
        return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in owner.opset_import}

    found = list(rows("main", list(model.graph.node), imports(model)))
    return found
