# says: the digits behind the seventh are lost
def function_my_add(model: onnx.ModelProto) -> onnx.ModelProto:
    def from_attribute(name):
        node = helper.make_node("Constant", [], [name])
        node.attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name=name)
        return node

    body = [
        from_attribute("alpha"),
        from_attribute("beta"),
        helper.make_node("Cast", ["a"], ["a32"], to=1),
        helper.make_node("Cast", ["b"], ["b32"], to=1),
        helper.make_node("Mul", ["alpha", "a32"], ["left"]),
        helper.make_node("Mul", ["beta", "b32"], ["right"]),
        helper.make_node("Add", ["left", "right"], ["y32"]),
        helper.make_node("CastLike", ["y32", "a"], ["y"]),
    ]
    standard = [entry for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    defaults = [helper.make_attribute("alpha", 3.0), helper.make_attribute("beta", 2.0)]
    model.functions.append(
        helper.make_function("oplab", "MyAdd", ["a", "b"], ["y"], body, standard, attribute_protos=defaults)
    )
    if all(entry.domain != "oplab" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("oplab", 1))
    return model
