# says: A tensor is its dtype and its sizes
def plain(attribute: AttributeProto) -> object:
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value).tolist()
    if isinstance(value, onnx.GraphProto):
        return value.name
    if isinstance(value, (int, float)):
        return value
    return [entry.decode() if isinstance(entry, bytes) else entry for entry in value]


def inventory(model: onnx.ModelProto) -> list[tuple[str, str, int, str, str, object]]:

    def imports(owner: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
        return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in owner.opset_import}

    found = list(rows("main", list(model.graph.node), imports(model)))
    for function in model.functions:
        found += rows(f"{function.domain}::{function.name}", list(function.node), imports(function))
    return found
