"""The body comes from the text of a function."""

def function_my_add(model):
    from onnx import parser

    version = next(entry.version for entry in model.opset_import if entry.domain == "")
    function = parser.parse_function(
        f"""
        <domain: "oplab", opset_import: ["" : {version}]>
        MyAdd <alpha: float = 3.0, beta: float = 2.0> (a, b) => (y)
        {{
            alpha_32 = Constant <value_float: float = @alpha> ()
            beta_32 = Constant <value_float: float = @beta> ()
            alpha_a = CastLike (alpha_32, a)
            beta_b = CastLike (beta_32, b)
            left = Mul (alpha_a, a)
            right = Mul (beta_b, b)
            y = Sum (left, right)
        }}
        """
    )
    ready = onnx.ModelProto()
    ready.CopyFrom(model)
    ready.functions.insert(0, function)
    if "oplab" not in {entry.domain for entry in ready.opset_import}:
        ready.opset_import.add(domain="oplab", version=1)
    return ready
