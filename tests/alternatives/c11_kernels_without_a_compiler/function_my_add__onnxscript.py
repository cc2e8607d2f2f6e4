"""The body written with onnxscript, for the opset of the model."""


def function_my_add(model):
    from onnxscript import opset18 as op
    from onnxscript import script
    from onnxscript.values import Opset

    @script(Opset("oplab", 1), default_opset=op)
    def MyAdd(a, b, alpha: float = 3.0, beta: float = 2.0):
        return op.CastLike(alpha, a) * a + op.CastLike(beta, b) * b

    function = MyAdd.to_function_proto()
    version = next(entry.version for entry in model.opset_import if entry.domain == "")
    for entry in function.opset_import:
        if entry.domain == "":
            entry.version = version
    model.functions.append(function)
    if all(entry.domain != "oplab" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("oplab", 1))
    return model
