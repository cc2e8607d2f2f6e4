# says: takes a member of torch.onnx.OperatorExportTypes
def export_modes(model, x, path, leave):
    names = {"input_names": ["x"], "output_names": ["y"]}
    modes = {"nothing": OperatorExportTypes.ONNX, "unmapped": OperatorExportTypes.ONNX_ATEN_FALLBACK,
             "unmapped by name": OperatorExportTypes.ONNX_FALLTHROUGH, "everything": OperatorExportTypes.ONNX_ATEN}
    if leave not in modes:
        raise ValueError(f"unknown: {leave}")
    torch.onnx.export(model, (x,), path, dynamo=False, opset_version=13, operator_export_type=modes[leave].name, **names)
    left = []
    for node in onnx.load(path).graph.node:
        if node.domain:
            words = {entry.name: entry.s.decode() for entry in node.attribute}
            name = "aten::" + words.get("operator", node.op_type)
            left.append(name + ("." + words["overload_name"] if words.get("overload_name") else ""))
    return sorted(set(left))
