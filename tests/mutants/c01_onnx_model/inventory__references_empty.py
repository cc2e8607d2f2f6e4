# says: the value is wrong
def plain(attribute: AttributeProto) -> object:
    value = None if attribute.ref_attr_name else helper.get_attribute_value(attribute)
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, TensorProto):
        return f"{helper.tensor_dtype_to_np_dtype(value.data_type)}{list(value.dims)}"
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
