# says: Expected one new function
def function_my_add(model):
    for node in list(model.graph.node):
        if node.op_type == "MyAdd":
            values = {"alpha": 3.0, "beta": 2.0} | {entry.name: entry.f for entry in node.attribute}
            body = [
                helper.make_node("Constant", [], ["alpha"], value_float=values["alpha"]),
                helper.make_node("Constant", [], ["beta"], value_float=values["beta"]),
                helper.make_node("CastLike", ["alpha", "a"], ["alpha_like_a"]),
                helper.make_node("CastLike", ["beta", "b"], ["beta_like_b"]),
                helper.make_node("Mul", ["alpha_like_a", "a"], ["left"]),
                helper.make_node("Mul", ["beta_like_b", "b"], ["right"]),
                helper.make_node("Add", ["left", "right"], ["y"]),
            ]
            standard = [entry for entry in model.opset_import if entry.domain == ""]
            model.functions.append(helper.make_function("oplab", "MyAdd", ["a", "b"], ["y"], body, standard))
    return model
