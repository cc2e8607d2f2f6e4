"""An op_type for each dtype; the attributes as texts, which keep all digits."""

def pyop_my_add(model):
    from onnx import TensorProto
    from onnxruntime_extensions import PyOp, onnx_op

    texts = {"alpha": PyOp.dt_string, "beta": PyOp.dt_string}

    @onnx_op(op_type="MyAddFloat", inputs=[PyOp.dt_float] * 2, outputs=[PyOp.dt_float], attrs=texts)
    def my_add_float(a, b, **given):
        return np.float32(given["alpha"]) * a + np.float32(given["beta"]) * b

    @onnx_op(op_type="MyAddDouble", inputs=[PyOp.dt_double] * 2, outputs=[PyOp.dt_double], attrs=texts)
    def my_add_double(a, b, **given):
        return float(given["alpha"]) * a + float(given["beta"]) * b

    rewritten = onnx.ModelProto()
    rewritten.CopyFrom(model)
    del rewritten.opset_import[:]
    rewritten.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in (("", 18), ("ai.onnx.contrib", 1)))
    types = {value.name: value.type.tensor_type.elem_type for value in rewritten.graph.input}
    for node in rewritten.graph.node:
        if node.op_type == "MyAdd":
            node.op_type += "Double" if types[node.input[0]] == TensorProto.DOUBLE else "Float"
            node.domain = "ai.onnx.contrib"
            values = {"alpha": 3.0, "beta": 2.0} | {entry.name: entry.f for entry in node.attribute}
            del node.attribute[:]
            node.attribute.extend(helper.make_attribute(name, repr(value)) for name, value in values.items())
    return rewritten
