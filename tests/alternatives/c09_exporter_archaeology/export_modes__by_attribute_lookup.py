"""The mode by its name, the model from a buffer, the attributes with onnx.helper."""

import io


def export_modes(model, x, path, leave):
    modes = {"nothing": "ONNX", "unmapped": "ONNX_ATEN_FALLBACK", "unmapped by name": "ONNX_FALLTHROUGH", "everything": "ONNX_ATEN"}
    try:
        mode = getattr(OperatorExportTypes, modes[leave])
    except KeyError:
        raise ValueError(leave) from None
    buffer = io.BytesIO()
    torch.onnx.export(model, x, buffer, dynamo=False, opset_version=13, operator_export_type=mode, input_names=["x"], output_names=["y"])
    Path(path).write_bytes(buffer.getvalue())
    found = set()
    for node in onnx.load_model_from_string(buffer.getvalue()).graph.node:
        words = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        if node.op_type == "ATen":
            found |= {".".join(filter(None, ["aten::" + words["operator"].decode(), words["overload_name"].decode()]))}
        elif node.domain == "org.pytorch.aten":
            found |= {f"aten::{node.op_type}"}
    return sorted(found)
