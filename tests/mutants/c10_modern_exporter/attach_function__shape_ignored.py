# says: equal after broadcasting, and the shape is not
def attach_function(module, inputs, dynamic_shapes, table, path):
    @script(oplab_1)
    def MyAdd(a, b, alpha: float, beta: float):
        left = opset20.Mul(opset20.CastLike(opset20.Constant(value_float=alpha), a), a)
        right = opset20.Mul(opset20.CastLike(opset20.Constant(value_float=beta), b), b)
        return opset20.Add(left, right)

    program = torch.onnx.export(
        module, inputs, dynamo=True, dynamic_shapes=dynamic_shapes, custom_translation_table=table, verbose=False
    )
    function = onnx_ir.from_proto(MyAdd.to_function_proto())
    program.model.functions[function.identifier()] = function
    for info in verify_onnx_program(program, inputs):
        assert info.actual_dtype == info.expected_dtype
        assert info.max_abs_diff <= 1e-3
    program.save(path, external_data=False)
