def attach_function(module, inputs, dynamic_shapes, table, path):
    @script(oplab_1)
    def MyAdd(a, b, alpha: float = 3.0, beta: float = 2.0):
        left = opset20.Mul(opset20.CastLike(opset20.Constant(value_float=alpha), a), a)
        right = opset20.Mul(opset20.CastLike(opset20.Constant(value_float=beta), b), b)
        return opset20.Add(left, right)

    program = torch.onnx.export(
        module, inputs, dynamo=True, dynamic_shapes=dynamic_shapes, custom_translation_table=table, verbose=False
    )
    function = onnx_ir.from_proto(MyAdd.to_function_proto())
    program.model.functions[function.identifier()] = function
    expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert [got.shape for got in program(*inputs)] == [right.shape for right in expected]
    for info in verify_onnx_program(program, inputs):
        assert info.actual_dtype == info.expected_dtype
        assert info.max_abs_diff <= 1e-3
    import onnx

    onnx.save(program.model_proto, path)
