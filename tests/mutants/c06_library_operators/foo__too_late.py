# says: The version is the earliest opset that a function serves
def foo(module, inputs, path):
    @parse_args("v", "v", "f", "i")
    def symbolic(g, input1, input2, attr1, attr2):
        return g.op("oplab::Foo", input1, input2, attr1_f=attr1, attr2_i=attr2)

    torch.onnx.register_custom_op_symbolic("oplab::foo_forward", symbolic, 14)
    torch.onnx.export(
        module,
        inputs,
        path,
        dynamo=False,
        opset_version=13,
        input_names=["input1", "input2"],
        custom_opsets={"oplab": 2},
    )
