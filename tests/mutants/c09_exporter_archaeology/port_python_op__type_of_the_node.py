# says: A node has no type today
# status: error
def port_python_op(model, x, path):
    calls = Counter()

    def handler(g, *args, **kwargs):
        name = kwargs["name"]
        calls[name] += 1
        if name == "MyClip":
            low, high = (g.op("Constant", value_t=torch.tensor(bound)) for bound in args[1:])
            made = g.op("Clip", args[0], low, high)
        elif name == "MyRelu":
            made = g.op("Relu", args[0])
        elif name == "MyScale":
            made = g.op("relics::Scale", args[0], factor_f=args[1])
        else:
            return symbolic_helper._unimplemented("prim::PythonOp", name)
        return made.setType(g.original_node.type())

    register_custom_op_symbolic("prim::PythonOp", handler, 1)
    torch.onnx.export(model, (x,), path, dynamo=False, autograd_inlining=False, opset_version=13,
                      input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}})
    return dict(calls)
