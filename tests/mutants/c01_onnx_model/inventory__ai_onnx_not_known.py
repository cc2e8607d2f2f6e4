# says: imports ai.onnx under its long name
# status: error
def inventory(model: onnx.ModelProto) -> list[tuple[str, str, int, str, str, object]]:

    def imports(owner: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
        return {entry.domain: entry.version for entry in owner.opset_import}

    found = list(rows("main", list(model.graph.node), imports(model)))
    for function in model.functions:
        found += rows(f"{function.domain}::{function.name}", list(function.node), imports(function))
    return found
