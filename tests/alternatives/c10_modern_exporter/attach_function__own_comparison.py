def attach_function(module, inputs, dynamic_shapes, table, path):
    import onnx
    import onnxruntime
    from onnx import helper

    program = torch.onnx.export(
        module, inputs, dynamo=True, dynamic_shapes=dynamic_shapes, custom_translation_table=table, verbose=False
    )
    model = program.model_proto
    nodes = []
    for name, tensor in (("alpha", "a"), ("beta", "b")):
        number = helper.make_node("Constant", [], [name])
        number.attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name=name)
        nodes += [
            number,
            helper.make_node("CastLike", [name, tensor], [f"{name}_like"]),
            helper.make_node("Mul", [f"{name}_like", tensor], [f"{name}_{tensor}"]),
        ]
    nodes.append(helper.make_node("Add", ["alpha_a", "beta_b"], ["y"]))
    imports = [entry for entry in model.opset_import if entry.domain == ""]
    model.functions.append(helper.make_function("oplab", "MyAdd", ["a", "b"], ["y"], nodes, imports, ["alpha", "beta"]))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {value.name: x.numpy() for value, x in zip(model.graph.input, inputs, strict=True)}
    expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, right in zip(session.run(None, feeds), expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(got), right.detach(), rtol=0, atol=1e-3)
    onnx.save(model, path)
