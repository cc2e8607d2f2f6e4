# says: declares alpha twice
def function_my_add(model: onnx.ModelProto) -> onnx.ModelProto:
    def from_attribute(name):
        node = helper.make_node("Constant", [], [name])
        node.attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name=name)
        return node

    body = [
        from_attribute("alpha"),
        from_attribute("beta"),
        helper.make_node("CastLike", ["alpha", "a"], ["alpha_like_a"]),
        helper.make_node("CastLike", ["beta", "b"], ["beta_like_b"]),
        helper.make_node("Mul", ["alpha_like_a", "a"], ["left"]),
        helper.make_node("Mul", ["beta_like_b", "b"], ["right"]),
        helper.make_node("Add", ["left", "right"], ["y"]),
    ]
    standard = [entry for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    defaults = [helper.make_attribute("alpha", 3.0), helper.make_attribute("beta", 2.0)]
    model.functions.append(
        helper.make_function(
            "oplab", "MyAdd", ["a", "b"], ["y"], body, standard, attributes=["alpha", "beta"], attribute_protos=defaults
        )
    )
    if all(entry.domain != "oplab" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("oplab", 1))
    return model
