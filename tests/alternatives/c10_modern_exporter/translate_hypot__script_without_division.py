def translate_hypot():
    @script(default_opset=op)
    def translate(a: FLOAT[...], b: FLOAT[...]) -> FLOAT[...]:
        large = op.Max(op.Abs(a), op.Abs(b))
        safe = op.Where(op.Cast(large, to=9), large, op.CastLike(1.0, large))
        x = a / safe
        y = b / safe
        return large * op.Sqrt(x * x + y * y)

    return {torch.ops.aten.hypot.default: translate}
