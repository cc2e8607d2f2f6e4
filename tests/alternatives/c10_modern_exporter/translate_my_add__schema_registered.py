def translate_my_add():
    import onnx
    from onnx.defs import OpSchema

    parameter, kind = OpSchema.FormalParameter, OpSchema.AttrType.FLOAT
    schema = OpSchema(
        "MyAdd",
        "oplab",
        1,
        inputs=[parameter("a", "T"), parameter("b", "T")],
        outputs=[parameter("y", "T")],
        type_constraints=[("T", ["tensor(float)", "tensor(double)"], "")],
        attributes=[OpSchema.Attribute("alpha", kind), OpSchema.Attribute("beta", kind)],
    )
    onnx.defs.register_schema(schema)

    def translate(a: FLOAT, b: FLOAT, alpha: float = 3.0, beta: float = 2.0) -> FLOAT:
        return oplab_1.MyAdd(a, b, alpha=alpha, beta=beta)

    return torch.ops.oplab.my_add, {torch.ops.oplab.my_add.default: translate}
